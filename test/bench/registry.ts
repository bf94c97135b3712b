/**
 * The registry beside docker-registry: the same requests, in turns, both with their access log on. CPU
 * seconds of the server processes are given too: on a busy machine they say more than the clock. Both sync
 * a blob's file before they acknowledge it, svc its folder too.
 */
import { join } from "node:path";
import { startServer } from "../e2e/harness.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import {
  compare,
  GIB,
  megabytes,
  perSecond,
  type Target,
  THOUSAND,
  type Work,
} from "./registry_compare.ts";
import { auth } from "./registry_auth.ts";
import { ask, MANIFEST, pushBlob, pushImage } from "./registry_image.ts";
import { type Job, load, type Outcome } from "./registry_load.ts";
import { garbage, lists } from "./registry_stores.ts";

/** MiB of the large blob; smaller for a quick look. */
const LARGE_MIB = Number(Deno.env.get("SVC_BENCH_MIB") ?? 1024);

async function smallRequests(targets: Target[]): Promise<void> {
  const blobs = new Map<string, string>();
  for (const { host } of targets) blobs.set(host, (await pushImage(host, "bench/app", 5, 1000))[0]);
  const rows: [string, string, (host: string) => string][] = [
    ["GET /v2/", "GET", () => "/v2/"],
    ["GET manifest by tag", "GET", () => "/v2/bench/app/manifests/v1"],
    ["HEAD blob", "HEAD", (host) => `/v2/bench/app/blobs/${blobs.get(host)}`],
  ];
  for (const [title, method, path] of rows) {
    const job = (target: Target): Job => ({
      kind: "requests",
      host: target.host,
      method,
      path: path(target.host),
      accept: MANIFEST,
      ms: 2000,
      clients: 32,
    });
    await compare(`${title}, 32 connections`, "req/s", targets, (target) => load(job(target)), {
      rate: perSecond,
      per: THOUSAND,
    });
  }
}

/**
 * Takes away what was pushed, so that each round writes where the one before did: the first writes to fresh
 * places of a virtual disk can be several times slower than all later ones.
 */
async function dropBlobs({ name, data }: Target, digests: string[]): Promise<void> {
  for (const digest of digests) {
    const hex = digest.slice("sha256:".length);
    const folder = join("sha256", hex.slice(0, 2), hex);
    await Deno.remove(
      name === "svc"
        ? join(data, "blobs", folder)
        : join(data, "docker/registry/v2/blobs", folder, "data"),
    );
  }
}

async function largeBlobs(targets: Target[]): Promise<void> {
  const push = async (target: Target, mib: number, clients: number): Promise<Outcome> => {
    const { host } = target;
    const outcome = await load({ kind: "push", host, repository: "bench/up", mib, clients });
    await dropBlobs(target, outcome.pushed ?? []);
    return outcome;
  };
  await compare(
    `push of a ${LARGE_MIB} MiB blob, chunked`,
    "MB/s",
    targets,
    (target) => push(target, LARGE_MIB, 1),
    { rate: megabytes, per: GIB },
  );
  const pinged = async (target: Target): Promise<Outcome> => {
    let running = true;
    const pushed = push(target, Math.ceil(LARGE_MIB / 4), 4).finally(() => running = false);
    const times: number[] = [];
    while (running) {
      const start = performance.now();
      await ask(target.host, "GET", "/v2/", "");
      times.push(performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    times.sort((a, b) => a - b);
    return { ...await pushed, p99: times[Math.floor(times.length * 0.99)] };
  };
  await compare("4 pushes at once, p99 of GET /v2/", "MB/s", targets, pinged, {
    rate: megabytes,
    per: GIB,
  });
  const blobs = new Map<string, string>();
  const size = Math.min(LARGE_MIB, 1024) * 2 ** 20;
  for (const { host } of targets) {
    blobs.set(host, (await pushBlob(host, "bench/down", new Uint8Array(size))).digest);
  }
  for (const clients of [1, 8]) {
    const pull: Work = ({ host }) =>
      load({ kind: "pull", host, clients, paths: [`/v2/bench/down/blobs/${blobs.get(host)}`] });
    await compare(`GET of a ${LARGE_MIB} MiB blob, ${clients} clients`, "MB/s", targets, pull, {
      rate: megabytes,
      per: GIB,
    });
  }
}

async function imagePulls(targets: Target[]): Promise<void> {
  const paths = new Map<string, string[]>();
  for (const { host } of targets) {
    const layers = await pushImage(host, "bench/image", 10, 20 * 2 ** 20);
    paths.set(host, [
      "/v2/bench/image/manifests/v1",
      ...layers.map((digest) => `/v2/bench/image/blobs/${digest}`),
    ]);
  }
  const pull: Work = ({ host }) =>
    load({ kind: "pull", host, clients: 16, paths: paths.get(host)! });
  await compare("16 clients pull 10 layers of 20 MiB", "MB/s", targets, pull, {
    rate: megabytes,
    per: GIB,
  });
}

const GROUPS = {
  requests: smallRequests,
  blobs: largeBlobs,
  image: imagePulls,
  lists,
};

/** `SVC_BENCH_ROWS=requests,blobs,image,lists,garbage,auth` chooses; all by default. */
export async function registry(): Promise<void> {
  const all = [...Object.keys(GROUPS), "garbage", "auth"];
  const chosen = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ?? all;
  for (const name of chosen) {
    if (!all.includes(name)) throw new Error(`there are no rows ${name}, but ${all.join(", ")}`);
  }
  const groups = Object.entries(GROUPS).filter(([name]) => chosen.includes(name));
  if (groups.length > 0) {
    await using svc = await startServer();
    await using peer = await startDockerRegistry({ accessLog: true });
    const targets = [
      { name: "svc", host: svc.host, pid: svc.pid, data: join(svc.dataDir, "registry/objects") },
      { name: "docker-registry", host: peer.host, pid: peer.pid, data: peer.data },
    ];
    for (const [, run] of groups) await run(targets);
  }
  if (chosen.includes("garbage")) await garbage();
  if (chosen.includes("auth")) await auth();
}

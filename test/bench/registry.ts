/**
 * The registry beside docker-registry: the same requests, in turns, both with their access log on. CPU
 * seconds of the server processes are given too: on a busy machine they say more than the clock. Both sync
 * a blob's file before they acknowledge it, svc its folder too.
 */
import { createHash } from "node:crypto";
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
import { type Job, load, type Outcome } from "./registry_load.ts";
import { garbage, lists } from "./registry_stores.ts";

/** MiB of the large blob; smaller for a quick look. */
const LARGE_MIB = Number(Deno.env.get("SVC_BENCH_MIB") ?? 1024);
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
async function ask(host: string, method: string, path: string, type: string, body?: BodyInit) {
  const headers: Record<string, string> = body === undefined ? {} : { "content-type": type };
  const answer = await fetch(path.startsWith("http") ? path : `http://${host}${path}`, {
    method,
    headers,
    body,
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return answer;
}

async function pushBlob(host: string, repository: string, bytes: Uint8Array<ArrayBuffer>) {
  const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
  const start = await ask(host, "POST", `/v2/${repository}/blobs/uploads/`, "");
  const place = new URL(start.headers.get("location")!, `http://${host}`);
  place.searchParams.set("digest", digest);
  await ask(host, "PUT", place.href, "application/octet-stream", bytes);
  return { digest, size: bytes.length };
}

/** An image of `layers` of the same size each; gives its digests. */
async function pushImage(host: string, repository: string, layers: number, size: number) {
  const config = await pushBlob(
    host,
    repository,
    new TextEncoder().encode('{"architecture":"amd64","os":"linux","rootfs":{"type":"layers"}}'),
  );
  const list: { digest: string; size: number }[] = [];
  for (let n = 0; n < layers; n++) {
    const bytes = new Uint8Array(size);
    crypto.getRandomValues(bytes.subarray(0, Math.min(size, 65536)));
    list.push(await pushBlob(host, repository, bytes));
  }
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: { mediaType: "application/vnd.oci.image.config.v1+json", ...config },
    layers: list.map((layer) => ({
      mediaType: "application/vnd.oci.image.layer.v1.tar",
      ...layer,
    })),
  });
  await ask(host, "PUT", `/v2/${repository}/manifests/v1`, MANIFEST, manifest);
  return list.map((layer) => layer.digest);
}

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

/** `SVC_BENCH_ROWS=requests,blobs,image,lists,garbage` chooses; all by default. */
export async function registry(): Promise<void> {
  const all = [...Object.keys(GROUPS), "garbage"];
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
}

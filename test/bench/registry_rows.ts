/** The rows of requests and blobs: what is asked of each registry, in turns. */
import { join } from "node:path";
import {
  compare,
  GIB,
  megabytes,
  perSecond,
  type Target,
  THOUSAND,
  type Work,
} from "./registry_compare.ts";
import { ask, MANIFEST, pushBlob, pushImage } from "./registry_image.ts";
import { type Job, load, type Outcome } from "./registry_load.ts";

/** MiB of the large blob; smaller for a quick look. */
const LARGE_MIB = Number(Deno.env.get("SVC_BENCH_MIB") ?? 1024);

export async function smallRequests(targets: Target[]): Promise<void> {
  const blobs = new Map<string, string>();
  for (const target of targets) {
    blobs.set(target.host, (await pushImage(target, "bench/app", 5, 1000))[0]);
  }
  const rows: [string, string, (host: string) => string][] = [
    ["GET /v2/", "GET", () => "/v2/"],
    ["GET manifest by tag", "GET", () => "/v2/bench/app/manifests/v1"],
    ["HEAD blob", "HEAD", (host) => `/v2/bench/app/blobs/${blobs.get(host)}`],
  ];
  for (const [title, method, path] of rows) {
    const job = (target: Target): Job => ({
      kind: "requests",
      host: target.host,
      tls: target.tls,
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
async function dropBlobs({ isPeer, data }: Target, digests: string[]): Promise<void> {
  for (const digest of digests) {
    const hex = digest.slice("sha256:".length);
    const folder = join("sha256", hex.slice(0, 2), hex);
    await Deno.remove(
      isPeer ? join(data, "docker/registry/v2/blobs", folder, "data") : join(data, "blobs", folder),
    );
  }
}

export async function largeBlobs(targets: Target[]): Promise<void> {
  const push = async (target: Target, mib: number, clients: number): Promise<Outcome> => {
    const { host, tls } = target;
    const outcome = await load({ kind: "push", host, tls, repository: "bench/up", mib, clients });
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
      await ask(target, "GET", "/v2/", "");
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
  for (const target of targets) {
    blobs.set(target.host, (await pushBlob(target, "bench/down", new Uint8Array(size))).digest);
  }
  for (const clients of [1, 8]) {
    const pull: Work = ({ host, tls }) =>
      load({
        kind: "pull",
        host,
        tls,
        clients,
        paths: [`/v2/bench/down/blobs/${blobs.get(host)}`],
      });
    await compare(`GET of a ${LARGE_MIB} MiB blob, ${clients} clients`, "MB/s", targets, pull, {
      rate: megabytes,
      per: GIB,
    });
  }
}

export async function imagePulls(targets: Target[]): Promise<void> {
  const paths = new Map<string, string[]>();
  for (const target of targets) {
    const layers = await pushImage(target, "bench/image", 10, 20 * 2 ** 20);
    paths.set(target.host, [
      "/v2/bench/image/manifests/v1",
      ...layers.map((digest) => `/v2/bench/image/blobs/${digest}`),
    ]);
  }
  const pull: Work = ({ host, tls }) =>
    load({ kind: "pull", host, tls, clients: 16, paths: paths.get(host)! });
  await compare("16 clients pull 10 layers of 20 MiB", "MB/s", targets, pull, {
    rate: megabytes,
    per: GIB,
  });
}

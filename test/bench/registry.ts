/**
 * The registry beside docker-registry: the same requests, in turns, both with their access log on. CPU
 * seconds of the server processes are given too: on a busy machine they say more than the clock.
 * Durability is not the same: svc syncs files and folders before it acknowledges, docker-registry does not.
 */
import { createHash } from "node:crypto";
import { startServer } from "../e2e/harness.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { median } from "./measure.ts";
import { type Job, load, type Outcome } from "./registry_load.ts";

interface Target {
  name: string;
  host: string;
  pid: number;
}

type Work = (target: Target) => Promise<Outcome>;

const ROUNDS = 3;
/** MiB of the large blob; smaller for a quick look. */
const LARGE_MIB = Number(Deno.env.get("SVC_BENCH_MIB") ?? 1024);
/** Repositories in the catalog, tags in a list. */
const NAMES = Number(Deno.env.get("SVC_BENCH_NAMES") ?? 10_000);
const INDEX = "application/vnd.oci.image.index.v1+json";
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
const TICKS = 100;

async function cpuSeconds(pid: number): Promise<number> {
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

interface Figures {
  rate: number;
  cpu: number;
  p99: number;
}

/** `rate` of an outcome, higher is better; `per` divides the CPU seconds. */
async function compare(
  title: string,
  unit: string,
  targets: Target[],
  work: Work,
  { rate, per, rounds = ROUNDS }: {
    rate: (outcome: Outcome) => number;
    per: { name: string; of: (outcome: Outcome) => number };
    rounds?: number;
  },
): Promise<void> {
  const all = targets.map((): Figures[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const index of targets.keys()) {
      const at = (index + round) % targets.length;
      const before = await cpuSeconds(targets[at].pid);
      const outcome = await work(targets[at]);
      const cpu = (await cpuSeconds(targets[at].pid) - before) / per.of(outcome);
      all[at].push({ rate: rate(outcome), cpu, p99: outcome.p99 });
    }
  }
  const middle = all.map((list): Figures => ({
    rate: median(list.map((f) => f.rate)),
    cpu: median(list.map((f) => f.cpu)),
    p99: median(list.map((f) => f.p99)),
  }));
  const peer = middle[middle.length - 1];
  console.log(`\n${title} (${rounds} rounds, medians)`);
  for (const [index, own] of middle.entries()) {
    const ratios = index === middle.length - 1
      ? ""
      : `  ${(own.rate / peer.rate).toFixed(2)}x rate, ${(own.cpu / peer.cpu).toFixed(2)}x CPU`;
    const p99 = own.p99 > 0 ? `  p99 ${own.p99.toFixed(1)} ms` : "";
    console.log(
      `  ${targets[index].name.padEnd(16)} ${own.rate.toFixed(0).padStart(7)} ${unit}  ` +
        `${own.cpu.toPrecision(3)} CPU s/${per.name}${p99}${ratios}`,
    );
  }
}

const perSecond = (outcome: Outcome) => outcome.requests / (outcome.ms / 1000);
const megabytes = (outcome: Outcome) => outcome.bytes / 1e6 / (outcome.ms / 1000);
const GIB = { name: "GiB", of: (outcome: Outcome) => outcome.bytes / 2 ** 30 };
const THOUSAND = { name: "1000", of: (outcome: Outcome) => outcome.requests / 1000 };

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

async function largeBlobs(targets: Target[]): Promise<void> {
  const push = (target: Target, clients: number): Promise<Outcome> =>
    load({ kind: "push", host: target.host, repository: "bench/up", mib: LARGE_MIB, clients });
  await compare(
    `push of a ${LARGE_MIB} MiB blob, chunked`,
    "MB/s",
    targets,
    (target) => push(target, 1),
    { rate: megabytes, per: GIB },
  );
  const pinged = async (target: Target): Promise<Outcome> => {
    let running = true;
    const pushed = load({
      kind: "push",
      host: target.host,
      repository: "bench/up",
      mib: Math.ceil(LARGE_MIB / 4),
      clients: 4,
    }).finally(() => running = false);
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

async function lists(targets: Target[]): Promise<void> {
  const body = JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [] });
  for (const { host } of targets) {
    const todo = Array.from({ length: NAMES }, (_, n) => [`/v2/many/r${n}/manifests/v1`]).flat();
    for (let n = 0; n < NAMES; n++) todo.push(`/v2/bench/tags/manifests/t${n}`);
    const worker = async () => {
      for (let path = todo.pop(); path; path = todo.pop()) {
        await ask(host, "PUT", path, INDEX, body);
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
  }
  for (
    const [title, path] of [
      [`catalog of ${NAMES} repositories`, `/v2/_catalog?n=${NAMES}`],
      [`list of ${NAMES} tags`, `/v2/bench/tags/tags/list?n=${NAMES}`],
    ]
  ) {
    const list: Work = ({ host }) =>
      load({ kind: "requests", host, method: "GET", path, ms: 2000, clients: 4 });
    await compare(title, "req/s", targets, list, { rate: perSecond, per: THOUSAND });
  }
}

const GROUPS = { requests: smallRequests, blobs: largeBlobs, image: imagePulls, lists };

/** `SVC_BENCH_ROWS=requests,blobs,image,lists` chooses; all by default. */
export async function registry(): Promise<void> {
  const chosen = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ?? Object.keys(GROUPS);
  await using svc = await startServer();
  await using peer = await startDockerRegistry({ accessLog: true });
  const targets = [
    { name: "svc", host: svc.host, pid: svc.pid },
    { name: "docker-registry", host: peer.host, pid: peer.pid },
  ];
  for (const [name, run] of Object.entries(GROUPS)) {
    if (chosen.includes(name)) await run(targets);
  }
}

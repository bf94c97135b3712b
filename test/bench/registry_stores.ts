/** What takes longer in a larger store: listings of names, and garbage collection. */
import { join } from "node:path";
import { EXECUTABLE, startServer } from "../e2e/harness.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { interleave, report, silently } from "./measure.ts";
import { compare, cpuSeconds, perSecond, type Target, THOUSAND } from "./registry_compare.ts";
import { load } from "./registry_load.ts";
import {
  dockerSeeder,
  type Seeder,
  seedGarbage,
  seedImages,
  seedNames,
  svcSeeder,
} from "./registry_seed.ts";

/** Repositories in the catalog, tags in a list. */
const NAMES = Number(Deno.env.get("SVC_BENCH_NAMES") ?? 10_000);
/** Blobs of the store whose garbage is collected, and how many of them nothing refers to. */
const BLOBS = Number(Deno.env.get("SVC_BENCH_BLOBS") ?? 100_000);
const GARBAGE = Math.ceil(BLOBS / 100);
const ROUNDS = 3;
/** The most that docker-registry gives at once. */
const PAGE = 1_000;

const seederOf = ({ name, data }: Pick<Target, "name" | "data">): Seeder =>
  name === "svc" ? svcSeeder(data) : dockerSeeder(data);

export async function lists(targets: Target[]): Promise<void> {
  for (const target of targets) seedNames(seederOf(target), NAMES);
  const middle = `many/r${NAMES / 2}`;
  const rows: [string, string][] = [
    [`catalog of ${NAMES} repositories, whole, ${PAGE} a page`, `/v2/_catalog?n=${PAGE}`],
    [`100 of them from the middle on`, `/v2/_catalog?n=100&last=${middle}`],
    [`list of ${NAMES} tags`, "/v2/bench/tags/tags/list"],
  ];
  for (const [index, [title, path]] of rows.entries()) {
    const list = ({ host }: Target) =>
      index === 0
        ? load({ kind: "walk", host, path, ms: 2000, clients: 4 })
        : load({ kind: "requests", host, method: "GET", path, ms: 2000, clients: 4 });
    await compare(title, "lists/s", targets, list, { rate: perSecond, per: THOUSAND });
  }
}

/** MiB that a process has had at most; undefined once it has ended. */
async function peakMemory(pid: number): Promise<number | undefined> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
  const kib = /^VmHWM:\s+(\d+)/m.exec(status)?.[1];
  return kib === undefined ? undefined : Number(kib) / 1024;
}

async function dockerCollects(config: string): Promise<{ cpu: number; peak: number }> {
  const child = new Deno.Command("docker-registry", {
    args: ["garbage-collect", config],
    env: { OTEL_TRACES_EXPORTER: "none" },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const used = { cpu: 0, peak: 0 };
  let ended = false;
  const done = child.status.finally(() => ended = true);
  while (!ended) {
    used.peak = await peakMemory(child.pid) ?? used.peak;
    used.cpu = await cpuSeconds(child.pid).catch(() => used.cpu);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  if (!(await done).success) throw new Error("docker-registry garbage-collect failed");
  return used;
}

/**
 * A collection of each, in turns, over stores of the same images. docker-registry has to be stopped or
 * read-only for it; svc serves on, which its memory includes.
 */
export async function garbage(): Promise<void> {
  await using svc = await startServer();
  await using peer = await startDockerRegistry();
  const own = svcSeeder(join(svc.dataDir, "registry/objects"));
  const theirs = dockerSeeder(peer.data);
  const live = BLOBS - GARBAGE;
  for (const seeder of [own, theirs]) seedImages(seeder, live);
  const before = await peakMemory(svc.pid);
  const cpu = { svc: [] as number[], peer: [] as number[] };
  const peaks: number[] = [];
  let rounds = 0;
  const rows = await interleave([
    {
      name: "svc gc",
      before: async () => seedGarbage(own, GARBAGE, rounds++),
      run: async () => {
        const start = await cpuSeconds(svc.pid);
        await silently(EXECUTABLE, ["gc", "--idle", "0s"], {
          SVC_SERVER: svc.url,
          SVC_CONFIG: "/nonexistent/config.yaml",
        });
        cpu.svc.push(await cpuSeconds(svc.pid) - start);
      },
    },
    {
      name: "docker-registry",
      before: async () => seedGarbage(theirs, GARBAGE, rounds++),
      run: async () => {
        const used = await dockerCollects(peer.config);
        cpu.peer.push(used.cpu);
        peaks.push(used.peak);
      },
    },
  ], ROUNDS);
  report(`garbage collection of ${BLOBS} blobs, ${GARBAGE} of them garbage`, rows);
  const seconds = (list: number[]) => list.map((value) => value.toFixed(2)).join(" ");
  const after = await peakMemory(svc.pid);
  console.log(
    `  CPU s, each run: svc server ${seconds(cpu.svc)}, docker-registry ${seconds(cpu.peer)}\n` +
      `  peak memory: svc server ${after?.toFixed(0)} MiB (${before?.toFixed(0)} before), ` +
      `docker-registry ${Math.max(...peaks).toFixed(0)} MiB`,
  );
  for (const [name, root] of [["svc", svc.dataDir], ["docker-registry", peer.data]]) {
    const left = await countBlobs(join(root, BLOB_FOLDERS[name]), 2);
    if (left >= live && left < live + GARBAGE) continue;
    throw new Error(`${name} has ${left} blobs left, of ${live} that are needed`);
  }
}

const BLOB_FOLDERS: Record<string, string> = {
  svc: "registry/objects/blobs/sha256",
  "docker-registry": "docker/registry/v2/blobs/sha256",
};

async function countBlobs(folder: string, depth: number): Promise<number> {
  let count = 0;
  for await (const entry of Deno.readDir(folder)) {
    const deeper = depth > 1 && entry.isDirectory;
    count += deeper ? await countBlobs(join(folder, entry.name), depth - 1) : 1;
  }
  return count;
}

/**
 * The registry under everything at once: several clients push, mount, re-tag, delete and pull while
 * garbage is collected without pause, on one server or on several that share a store, which are killed
 * with -9 at random moments.
 *
 *     deno run -A test/soak/registry_gc.ts --seconds 600
 *     deno run -A test/soak/registry_gc.ts --seconds 600 --storage 's3://bucket?endpoint=…' --servers 2
 *
 * Fails where a push failed that no kill cut, where something acknowledged is not there, where a
 * reference dangles, or where garbage is left at the end.
 */
import assert from "node:assert/strict";
import { parseArgs } from "node:util";
import type { GcResult, StorageUsage, VerifyEvent } from "../../lib/api/storage.ts";
import { type Server, startServer } from "../e2e/harness.ts";
import { PATIENCE_MS } from "../waits.ts";
import { Client, needed, pushable, type Tally, type Target } from "./clients.ts";

export interface SoakOptions {
  seconds: number;
  /** A value of SVC_STORAGE that all servers share; absent: a folder of one server's own. */
  storage?: string;
  servers?: number;
  clients?: number;
  /** Seconds between kills; 0: none. */
  killEvery?: number;
  /** Pushes that rest for so long are given up, as `svc gc --idle` has it. */
  idle?: string;
}

export interface SoakReport extends Tally {
  collections: number;
  collected: number;
  kills: number;
}

/** One that did little proves little: it goes on until it has done this much. */
const isLittle = ({ pushes, mounts, deletes, pulls }: Tally, collections: number) =>
  Math.min(pushes, mounts + deletes, pulls) < 4 || collections < 2;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function collectGarbage(target: Target, query = ""): Promise<GcResult | undefined> {
  const response = await fetch(`${target.url}/.svc/v1/gc${query}`, { method: "POST" });
  if (response.ok) return await response.json();
  const text = await response.text();
  if (response.status === 409) return undefined;
  throw new Error(`gc: ${response.status} ${text}`);
}

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const { seconds, storage, servers: count = 1, clients: many = 5, killEvery = 5, idle = "15s" } =
    options;
  const tally: Tally = {
    pushes: 0,
    mounts: 0,
    retags: 0,
    deletes: 0,
    pulls: 0,
    cut: 0,
    failures: [],
  };
  const report = { collections: 0, collected: 0, kills: 0 };
  await using stack = new AsyncDisposableStack();
  const servers: Server[] = [];
  for (let n = 0; n < count; n++) {
    const args = storage === undefined ? [] : ["--storage", storage];
    const env = { SVC_GC_UNTAGGED: "drop", SVC_LOG_LEVEL: "warn" };
    servers.push(stack.use(await startServer({ args, env })));
  }
  const targets: Target[] = servers.map(({ url }) => ({ url, epoch: 0 }));
  let going = true;
  const until = Date.now() + seconds * 1000;
  const clients = Array.from({ length: many }, (_, n) => new Client(`c${n}`, targets, tally));

  const collecting = targets.map(async (target) => {
    while (going) {
      const { epoch } = target;
      try {
        const done = epoch % 2 === 0 ? await collectGarbage(target, `?idle=${idle}`) : undefined;
        if (done) {
          report.collections++;
          report.collected += done.blobsDeleted;
        } else await sleep(50);
      } catch (error) {
        if (target.epoch === epoch) tally.failures.push(`gc: ${(error as Error).message}`);
        await sleep(50);
      }
    }
  });
  const killing = (async () => {
    while (killEvery > 0) {
      await sleep(killEvery * 1000 * (0.5 + Math.random()));
      if (Date.now() + 2000 > until && report.kills > 0) return;
      const n = Math.floor(Math.random() * servers.length);
      targets[n].epoch++;
      await servers[n].kill9();
      await servers[n].restart();
      targets[n].epoch++;
      report.kills++;
    }
  })();
  const latest = until + PATIENCE_MS;
  const goesOn = () =>
    Date.now() < until || Date.now() < latest && isLittle(tally, report.collections);
  await Promise.all(clients.map((client) => client.run(goesOn)));
  await killing;
  going = false;
  await Promise.all(collecting);

  try {
    await quiet();
  } catch (error) {
    // The pipes are read in the background.
    await sleep(200);
    const log = servers.map((server) => server.log().slice(-5000)).join("\n");
    throw new Error(`${(error as Error).message}\nthe servers' logs:\n${log}`, { cause: error });
  }
  return { ...tally, ...report };

  // What is acknowledged is all there, all else goes, and nothing dangles.
  async function quiet(): Promise<void> {
    for (const client of clients) await client.pullAll();
    await collectGarbage(targets[0], "?idle=0s");
    for (const client of clients) await client.pullAll();
    assert.deepEqual(tally.failures, [], "failures");
    await checkStore(targets[0], needed(clients), count > 1);
  }
}

/** `shared`: where a collector died beside another server, a blob may stand as a copy, too or only. */
async function checkStore(
  target: Target,
  expected: Set<string>,
  shared: boolean,
): Promise<void> {
  const checked = await fetch(`${target.url}/.svc/v1/storage/verify`, { method: "POST" });
  const events = (await checked.text()).trim().split("\n").map((line): VerifyEvent =>
    JSON.parse(line)
  );
  assert.deepEqual(events.filter(({ type }) => type === "problem" || type === "error"), []);
  assert.equal(events.at(-1)?.type, "result");
  const usage = await fetch(`${target.url}/.svc/v1/storage`);
  const { content }: StorageUsage = await usage.json();
  const { blobs, copies } = content;
  const says = `${blobs} blobs, ${copies} copies; ${expected.size} are needed`;
  if (shared) {
    assert.ok(expected.size <= blobs + copies, `something is missing: ${says}`);
    assert.ok(blobs <= expected.size, `garbage is left: ${says}`);
  } else {assert.deepEqual(
      [blobs, copies],
      [expected.size, 0],
      "something is missing, or garbage left",
    );}
  for (const digest of pushable()) {
    const path = `/v2/soak/common/blobs/${digest}`;
    const { status } = await fetch(target.url + path, { method: "HEAD" });
    assert.equal(status, expected.has(digest) ? 200 : 404, `HEAD ${path}; ${says}`);
  }
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      seconds: { type: "string", default: "60" },
      storage: { type: "string" },
      servers: { type: "string", default: "1" },
      clients: { type: "string", default: "5" },
      "kill-every": { type: "string", default: "5" },
      idle: { type: "string" },
    },
  });
  const report = await soak({
    seconds: Number(values.seconds),
    storage: values.storage,
    servers: Number(values.servers),
    clients: Number(values.clients),
    killEvery: Number(values["kill-every"]),
    idle: values.idle,
  });
  console.log(JSON.stringify(report, null, 2));
}

/**
 * What waits again and again (for a chunk, an event, a free place) must not leave something behind each time with a
 * promise that lives as long as the whole: `Promise.race` does, until all of its promises have settled.
 */
import { deepStrictEqual, rejects, strictEqual } from "node:assert/strict";
import type { DockerApi } from "../../lib/dockerapi/api.ts";
import { SolveRun } from "../../lib/dockerapi/buildkit/solves.ts";
import type { DockerEvent } from "../../lib/dockerapi/events/hub.ts";
import { EVENT_ROUTES } from "../../lib/dockerapi/events/routes.ts";
import type { Call } from "../../lib/dockerapi/request.ts";
import { scriptedDaemon } from "../../lib/docker/testing.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import { applyLayer } from "../../lib/snapshot/tree_jobs.ts";
import { eachOf } from "../../lib/store/gc/each.ts";

const TIMES = 200;

/** How many races the work begins. */
async function racesOf(work: () => Promise<void>): Promise<number> {
  const race = Promise.race;
  let count = 0;
  Promise.race = function (this: typeof Promise, values: readonly unknown[]) {
    count++;
    return race.call(this, values);
  } as typeof Promise.race;
  try {
    await work();
  } finally {
    Promise.race = race;
  }
  return count;
}

async function noRaces(work: () => Promise<void>): Promise<void> {
  const races = await racesOf(work);
  strictEqual(races < TIMES / 10, true, `${races} races in ${TIMES} turns`);
}

async function* pieces(size = 64 * 1024) {
  for (let at = 0; at < TIMES; at++) yield new Uint8Array(size);
}

/** A layer of one file, in small chunks. */
function layer(): ReadableStream<Uint8Array> {
  const body = ReadableStream.from(pieces(512));
  const file = { path: "file", type: "file" as const, size: TIMES * 512, body };
  return ReadableStream.from(writeTar([file]));
}

Deno.test("repeated waits: a layer is unpacked chunk by chunk", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-waits-" });
  try {
    await noRaces(async () => {
      await applyLayer({ root, lower: [], overlay: false }, layer());
    });
    strictEqual((await Deno.stat(`${root}/file`)).size, TIMES * 512);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("repeated waits: a layer that cannot be unpacked ends a source that gives no more", async () => {
  const root = await Deno.makeTempDir({ prefix: "svc-waits-" });
  const cancelled = Promise.withResolvers<void>();
  const source = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new Uint8Array(4096).fill(0x41)),
    cancel: () => cancelled.resolve(),
  });
  try {
    const applied = applyLayer({ root, lower: [], overlay: false }, source);
    await rejects(applied, { code: "archive_invalid" });
    await cancelled.promise;
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("repeated waits: a body is sent to a daemon piece by piece", async () => {
  let got = 0;
  await using daemon = await scriptedDaemon(async (call) => {
    for (let chunk; (chunk = await call.read());) {
      got += chunk.length;
      if (new TextDecoder("latin1").decode(chunk).endsWith("0\r\n\r\n")) break;
    }
    await call.json({});
  });
  const attempted = "Cannot send";
  await noRaces(async () => {
    const body = ReadableStream.from(pieces());
    await daemon.client.json({ path: "/images/load", attempted, method: "POST", body });
  });
  strictEqual(got > TIMES * 64 * 1024, true, `${got} bytes`);
});

Deno.test("repeated waits: the status of a solve is told message by message", async () => {
  const run = new SolveRun<unknown>();
  const gone = new AbortController();
  const status = run.status(gone.signal);
  await noRaces(async () => {
    for (let at = 0; at < TIMES; at++) {
      const next = status.next();
      run.tell({ vertexes: [], statuses: [], logs: [], warnings: [] });
      strictEqual((await next).done, false);
    }
    const last = status.next();
    gone.abort();
    strictEqual((await last).done, true);
  });
});

Deno.test("repeated waits: docker's events are told one by one, to the end that was asked for", async () => {
  const gone = new AbortController();
  let tell: (event: DockerEvent) => void = () => {};
  const events = {
    listen: (listener: typeof tell) => {
      tell = listener;
      return () => {};
    },
  };
  const call = { signal: gone.signal, query: new URLSearchParams(), filters: () => new Map() };
  const answer = await EVENT_ROUTES[0].handler(
    call as unknown as Call,
    { events } as unknown as DockerApi,
  );
  const stream = (answer as { stream: AsyncIterable<string> }).stream[Symbol.asyncIterator]();
  await noRaces(async () => {
    for (let at = 0; at < TIMES; at++) {
      const next = stream.next();
      tell(
        { Type: "image", Action: "pull", Actor: { ID: `${at}`, Attributes: {} } } as DockerEvent,
      );
      strictEqual(JSON.parse((await next).value).Actor.ID, `${at}`);
    }
    const last = stream.next();
    gone.abort();
    strictEqual((await last).done, true);
  });
});

Deno.test("repeated waits: many items beside one that takes long", async () => {
  const slow = Promise.withResolvers<void>();
  const done: number[] = [];
  await noRaces(async () => {
    await eachOf(Array.from({ length: TIMES }, (_, at) => at), 2, async (at) => {
      if (at === 0) await slow.promise;
      done.push(at);
      if (done.length === TIMES - 1) slow.resolve();
    });
  });
  deepStrictEqual(done.toSorted((a, b) => a - b), Array.from({ length: TIMES }, (_, at) => at));
});

/** A caller whose connection lives and who says nothing: every question ends, and with it the build. */
import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { writeLine } from "../../wire/lines.ts";
import { duplexPair, TestClock } from "../../wire/testing.ts";
import { type Clock, Pace } from "../../wire/pace.ts";
import { PatientStream } from "../../wire/patience.ts";
import { NinepClient } from "../../wire/ninep/client.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { Caller } from "./caller.ts";

const never = new AbortController().signal;

/** `answer` is what the other side does with a stream; by default nothing. */
function callerOf(
  answer: (stream: Duplex, kind: string) => Promise<void> = async () => {},
  time: { patienceMs?: number; clock?: Clock } = { patienceMs: 20 },
): Caller {
  return new Caller({
    open: (kind) => {
      const [near, far] = duplexPair();
      void answer(far, kind);
      return near;
    },
    subject: "someone",
    tooLarge: () => new SvcError("too_large", "too large"),
    ...time,
  });
}

async function drain(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

const entry = (path: string) =>
  ({ path, type: "file", mode: 0o644, size: 9, mtime: 0, mtimeNs: 0, stamp: "s" }) as const;

Deno.test("a caller that answers nothing: each question ends with a reason", async () => {
  const caller = callerOf();
  const tree = caller.tree("context", { identity: "i" });
  const questions: Record<string, () => Promise<unknown>> = {
    list: () => drain(tree.entries(never)),
    changes: () => drain(tree.changes!([["a", "digest"]], never)),
    files: () => drain(tree.readMany!([entry("a")], never)),
    "9p": () => drain(tree.read("a", 9, never)),
    tar: () => caller.archive().getReader().read(),
    secret: () => caller.secrets(["id"]).get("id", never),
    ssh: () => caller.agents(["id"]).connect("id", never),
  };
  for (const [name, ask] of Object.entries(questions)) {
    await assert.rejects(ask, (error) => {
      assert.ok(error instanceof SvcError, name);
      assert.match(error.message, /for 0\.02 s/, name);
      return true;
    });
  }
  caller.close();
});

Deno.test("a caller that stops in the middle of an answer", async () => {
  const caller = callerOf(async (stream, kind) => {
    if (kind === "secret") {
      await writeLine(stream, { found: true });
      await stream.write(new TextEncoder().encode("hal"));
    } else await writeLine(stream, ["a", "f", 420, 9, 0, "s"]);
  });
  await assert.rejects(drain(caller.tree("context", { identity: "i" }).entries(never)), /list/);
  await assert.rejects(caller.secrets(["id"]).get("id", never), /secret/);
});

Deno.test("an agent that was found may take its time", async () => {
  const caller = callerOf(async (stream) => {
    await writeLine(stream, { found: true });
    await stream.read();
    await new Promise((resolve) => setTimeout(resolve, 60));
    await stream.write(new TextEncoder().encode("signed"));
  });
  await using agent = await caller.agents(["id"]).connect("id", never);
  const reader = agent.readable.getReader();
  const read = reader.read();
  await agent.writable.getWriter().write(new Uint8Array([1]));
  assert.equal(new TextDecoder().decode((await read).value), "signed");
});

Deno.test("9P: no question, no hurry; what comes late breaks nothing", async () => {
  const [near, far] = duplexPair();
  // The answer is there before the question: no timer comes in between.
  const version = [21, 0, 0, 0, 101, 255, 255, 0, 0, 4, 0, 8, 0];
  await far.write(new Uint8Array([...version, ...new TextEncoder().encode("9P2000.L")]));
  const client = await NinepClient.connect(near, { patienceMs: 20 });
  await new Promise((resolve) => setTimeout(resolve, 60));
  const walk = client.walk(0, []);
  await assert.rejects(walk, /no answer for 0\.02 s/);
  await assert.rejects(client.walk(0, []), /no answer for 0\.02 s/);
});

Deno.test("a stream that nobody reads does not run out of patience", async () => {
  const [near, far] = duplexPair();
  const stream = new PatientStream(near, { patienceMs: 20, late: () => new Error("late") });
  await new Promise((resolve) => setTimeout(resolve, 60));
  await far.write(new Uint8Array([1]));
  assert.deepEqual(await stream.read(), new Uint8Array([1]));
  await assert.rejects(stream.read(), /late/);
  await assert.rejects(stream.read(), /late/);
});

/** Reads an archive that comes in such pieces, each of them at the end of two minutes. */
async function drip(pieces: number[]): Promise<number> {
  const clock = new TestClock();
  let far: Duplex | undefined;
  const caller = callerOf((stream) => Promise.resolve(void (far = stream)), { clock });
  const reader = caller.archive().getReader();
  let got = 0;
  for (const size of pieces) {
    const next = reader.read();
    next.catch(() => {/* awaited below */});
    await clock.move(119_000);
    await far!.write(new Uint8Array(size)).catch(() => {/* it was reset */});
    got += (await next).value?.length ?? 0;
  }
  await reader.cancel();
  return got;
}

Deno.test("a caller that sends a byte every two minutes, and one with a slow link", async () => {
  await assert.rejects(drip(Array(10).fill(1)), {
    code: "context_invalid",
    message: "Cannot read from the caller: almost nothing arrived for 600 s",
  });
  // A kilobyte a second, for half an hour; and one that had to look for long before it began.
  assert.equal(await drip(Array(15).fill(119 * 1024)), 15 * 119 * 1024);
  assert.equal(await drip([1, 1, 1, 1, 119 * 1024, 1, 1, 1, 1, 7000]), 119 * 1024 + 7008);
});

Deno.test("all streams of a caller count, while one of them waits", async () => {
  const clock = new TestClock();
  const late = () => new Error("late");
  const pace = new Pace({ windowMs: 1000, least: 100, late, clock });
  const [near, far] = duplexPair();
  const stream = new PatientStream(near, { late, pace });
  for (let turn = 0; turn < 5; turn++) {
    const read = stream.read();
    await clock.move(600);
    pace.came(100);
    await far.write(new Uint8Array([turn]));
    assert.deepEqual(await read, new Uint8Array([turn]));
  }
  // Nobody waits: that is not a time.
  pace.came(100);
  const [near9, far9] = duplexPair();
  const connecting = NinepClient.connect(near9, { pace });
  for (let byte = 0; byte < 3; byte++) {
    await far9.write(new Uint8Array([1]));
    await clock.move(600);
  }
  await assert.rejects(connecting, /late/);
});

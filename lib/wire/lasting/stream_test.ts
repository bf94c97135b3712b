/** Streams over connections that are cut at any byte. */
import assert from "node:assert/strict";
import { duplexPair, SEED } from "../testing.ts";
import type { Duplex } from "../duplex.ts";
import { LastingStream, WINDOW } from "./stream.ts";

/** Repeatable random numbers below `below`. */
function random(seed: number) {
  let state = seed;
  return (below: number) => {
    state = Math.imul(state ^ state >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0;
    return ((state ^ state >>> 13) >>> 0) % below;
  };
}

/** A connection that is lost after some bytes were written to it. */
function cut(stream: Duplex, after: number): Duplex {
  let left = after;
  return {
    read: () => stream.read(),
    closeWrite: () => stream.closeWrite(),
    reset: (why) => stream.reset(why),
    async write(bytes) {
      left -= bytes.length;
      if (left >= 0) return await stream.write(bytes);
      await stream.write(bytes.subarray(0, bytes.length + left));
      stream.reset();
      throw new Error("cut");
    },
  };
}

/** Connects both ends again and again until `done`; each connection breaks after up to `most` bytes. */
async function connect(
  ends: [LastingStream, LastingStream],
  next: (below: number) => number,
  { most, done }: { most: number; done: () => boolean },
): Promise<number> {
  for (let connections = 1;; connections++) {
    const [near, far] = duplexPair();
    await Promise.allSettled([
      ends[0].carry(cut(near, next(most))),
      ends[1].carry(cut(far, next(most))),
    ]);
    if (done()) return connections;
  }
}

async function readAll(stream: Duplex): Promise<Uint8Array> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (let part = await stream.read(); part; part = await stream.read()) parts.push(part.slice());
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

Deno.test("lasting stream: nothing is lost and nothing comes twice, wherever connections are cut", async () => {
  for (let round = 0; round < 12; round++) {
    const next = random(SEED + round);
    const ends: [LastingStream, LastingStream] = [new LastingStream(), new LastingStream()];
    const data = [0, 1].map(() => crypto.getRandomValues(new Uint8Array(60_000)));
    let read = 0;
    const writing = ends.map(async (end, index) => {
      for (let at = 0; at < data[index].length;) {
        const part = data[index].subarray(at, at + 1 + next(3000));
        at += part.length;
        await end.write(part);
      }
      await end.closeWrite();
    });
    const reading = ends.map(async (end) => {
      const all = await readAll(end);
      if (++read === 2) { for (const one of ends) one.reset(); }
      return all;
    });
    const connections = await connect(ends, next, { most: 9000, done: () => read === 2 });
    await Promise.all(writing);
    const [back, there] = await Promise.all(reading);
    assert.deepEqual(there, data[0]);
    assert.deepEqual(back, data[1]);
    assert.ok(connections > 5, `${connections}`);
  }
});

Deno.test("lasting stream: a sender waits for a reader that takes nothing, over several connections", async () => {
  const ends: [LastingStream, LastingStream] = [new LastingStream(), new LastingStream()];
  const next = random(SEED);
  let written = 0;
  const writing = (async () => {
    for (; written < 3 * WINDOW; written += 1 << 20) await ends[0].write(new Uint8Array(1 << 20));
    await ends[0].closeWrite();
  })();
  let rounds = 0;
  let read: Promise<number> | undefined;
  let over = false;
  await connect(ends, next, {
    most: WINDOW,
    done: () => {
      if (++rounds === 4) {
        assert.ok(ends[1].received <= WINDOW, `${ends[1].received}`);
        assert.ok(written <= WINDOW + (1 << 20), `${written}`);
        read = (async () => {
          let size = 0;
          for (let part = await ends[1].read(); part; part = await ends[1].read()) {
            size += part.length;
          }
          over = true;
          for (const one of ends) one.reset();
          return size;
        })();
      }
      return over;
    },
  });
  await writing;
  assert.equal(await read, 3 * WINDOW);
});

Deno.test("lasting stream: another side that says what cannot be is given up", async () => {
  const number = (value: number) => {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(value));
    return [...bytes];
  };
  const cases: [string, number[]][] = [
    ["a wrong offset", number(5)],
    ["a frame of kind 7", [...number(0), 7, ...number(0)]],
    ["that it took what was not sent", [...number(0), 1, ...number(9)]],
    ["more than the window has room for", [...number(0), 0, ...number(WINDOW + 1)]],
  ];
  for (const [why, bytes] of cases) {
    const stream = new LastingStream();
    const [near, far] = duplexPair();
    await far.write(new Uint8Array(bytes));
    await assert.rejects(stream.carry(near), new RegExp(why));
    await assert.rejects(stream.read(), new RegExp(why));
    await assert.rejects(stream.carry(near), new RegExp(why));
  }
});

import assert from "node:assert/strict";
import type { Duplex } from "../../wire/duplex.ts";
import { PacedStream } from "./tls_pace.ts";

const CHUNK = 64 << 10;
const AHEAD = 256 << 10;

/** Has always more to read, and counts what was read. */
class Endless implements Duplex {
  given = 0;
  written = 0;
  wasReset = false;
  ended = false;
  read(): Promise<Uint8Array> {
    this.given += CHUNK;
    return Promise.resolve(new Uint8Array(CHUNK));
  }
  write(bytes: Uint8Array): Promise<void> {
    this.written += bytes.length;
    return Promise.resolve();
  }
  closeWrite(): Promise<void> {
    this.ended = true;
    return Promise.resolve();
  }
  reset(): void {
    this.wasReset = true;
  }
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

Deno.test("a paced stream gives as much ahead as it may, and more only to who waits", async () => {
  const inner = new Endless();
  const paced = new PacedStream(inner);
  paced.fed();
  // As TLS does: all that comes is taken.
  paced.stream.resume();
  while (inner.given < AHEAD) await turns(1);
  await turns(100);
  assert.equal(inner.given, AHEAD);
  // Who waits, and gets it in the next turn.
  paced.hungry();
  const before = inner.given;
  while (inner.given === before) await turns(1);
  paced.fed();
  await turns(100);
  assert.ok(inner.given <= before + 2 * AHEAD, String(inner.given));
  paced.hungry();
  while (inner.given < 20 * AHEAD) await turns(1);
  paced.stream.destroy();
  await turns(2);
  const after = inner.given;
  assert.ok(inner.wasReset);
  await turns(10);
  assert.equal(inner.given, after);
});

Deno.test("a paced stream writes and ends as what is below does", async () => {
  const inner = new Endless();
  const { stream } = new PacedStream(inner);
  await new Promise<void>((resolve) => stream.write(new Uint8Array(7), () => resolve()));
  await new Promise<void>((resolve) => stream.end(() => resolve()));
  assert.deepEqual([inner.written, inner.ended, inner.wasReset], [7, true, false]);
  stream.destroy();
  await turns(2);
  assert.ok(inner.wasReset);
});

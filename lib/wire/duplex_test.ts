import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { connDuplex, type Duplex } from "./duplex.ts";
import { pattern, readAll } from "./testing.ts";

/** Two ends of one connection over loopback. */
async function ends(): Promise<[Duplex, Duplex] & Disposable> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept();
  const one = connDuplex(await Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }));
  const other = connDuplex(await accepted);
  return Object.assign([one, other] as [Duplex, Duplex], {
    [Symbol.dispose]() {
      one.reset();
      other.reset();
    },
  });
}

Deno.test("a connection: each direction ends by itself, whichever ends first", async () => {
  using pair = await ends();
  const [one, other] = pair;
  const there = pattern(300_000, 3);
  const back = pattern(200_000, 5);
  const sent = one.write(there).then(() => one.closeWrite());
  assert.deepEqual(await readAll(other), there);
  await sent;
  await one.closeWrite();
  const answered = other.write(back).then(() => other.closeWrite());
  assert.deepEqual(await readAll(one), back);
  await answered;
  await assert.rejects(one.write(there), SvcError);
});

Deno.test("a connection: what was read stays what it was, large and small; writes keep their order", async () => {
  using pair = await ends();
  const [one, other] = pair;
  const parts = [1, 20_000, 7, 70_000, 16_384, 3].map((size) => pattern(size, size));
  const writes = parts.map((part) => one.write(part));
  const closed = one.closeWrite();
  const whole = new Uint8Array(await new Blob(parts).arrayBuffer());
  assert.deepEqual(await readAll(other), whole);
  await Promise.all([...writes, closed]);
});

Deno.test("a connection: a reset ends what waits, and the end of one is not an error", async () => {
  using pair = await ends();
  const [one, other] = pair;
  const waiting = assert.rejects(one.read());
  one.reset();
  one.reset();
  await waiting;
  await one.closeWrite();
  assert.equal(await other.read(), undefined);
});

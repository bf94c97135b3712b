import assert from "node:assert/strict";
import { datagrams } from "./datagrams.ts";
import type { Duplex } from "./duplex.ts";
import { relay } from "./relay.ts";
import { duplexPair, pattern, readAll } from "./testing.ts";

const bytes = (...values: number[]) => new Uint8Array(values);

/** Two clients with a relay between them. */
function joined(change: (streams: Duplex[]) => Duplex[] = (streams) => streams) {
  const [left, a] = duplexPair();
  const [right, b] = duplexPair();
  const [x, y] = change([a, b]);
  const ended = relay(x, y);
  ended.catch(() => {/* told to whoever waits */});
  return { left, right, ended };
}

Deno.test("relay: everything both ways; one direction's end is not the other's", async () => {
  const { left, right, ended } = joined();
  const [there, back] = [pattern(1_000_000, 2), pattern(2_000_000, 5)];
  await left.write(there);
  await left.closeWrite();
  assert.deepEqual(await readAll(right), there);
  await right.write(back);
  await right.closeWrite();
  assert.deepEqual(await readAll(left), back);
  await ended;
});

Deno.test("relay: what breaks is thrown, and breaks the other side", async () => {
  const { left, right, ended } = joined();
  await left.write(bytes(1));
  assert.deepEqual(await right.read(), bytes(1));
  left.reset();
  await assert.rejects(ended, { code: "upstream_failed" });
  await assert.rejects(right.read(), { code: "upstream_failed" });
});

Deno.test("relay: what a side said before it took no more is passed on", async () => {
  const refused = new Error("it takes nothing");
  const { left, right, ended } = joined(([a, b]) => [
    a,
    { ...b, write: () => Promise.reject(refused) },
  ]);
  await left.write(bytes(1));
  await right.write(bytes(7));
  assert.deepEqual(await left.read(), bytes(7));
  await right.closeWrite();
  await assert.rejects(ended, refused);
});

Deno.test("relay: a side that cannot be told of the other's end ends the relay, and nothing else", async () => {
  const refused = new Error("its connection is closing");
  const resets = [0, 0];
  const { left, right, ended } = joined((sides) =>
    sides.map((side, at) => ({
      ...side,
      // With `closed` the relay watches each side: an error must not get lost there.
      closed: new Promise(() => {}),
      ...(at === 1 && { closeWrite: () => Promise.reject(refused) }),
      reset: () => (resets[at]++, side.reset()),
    }))
  );
  await left.closeWrite();
  await right.write(bytes(7));
  assert.deepEqual(await left.read(), bytes(7));
  await right.closeWrite();
  await assert.rejects(ended, refused);
  assert.deepEqual(resets, [1, 1]);
});

Deno.test("relay: a side that is gone after its end lets go of the other one", async () => {
  for (const why of [new Error("gone"), undefined]) {
    const closed = Promise.withResolvers<unknown>();
    let resets = 0;
    const { left, right, ended } = joined(([a, b]) => [
      { ...a, closed: closed.promise },
      { ...b, reset: () => (resets++, b.reset()) },
    ]);
    await left.closeWrite();
    assert.equal(await right.read(), undefined);
    assert.equal(resets, 0);
    closed.resolve(why);
    if (why) await assert.rejects(ended, why);
    else await ended;
    assert.notEqual(resets, 0);
  }
});

Deno.test("datagrams: whole ones, whatever the stream makes of them", async () => {
  for (const pieces of [1, 2, 3, 1000, 1 << 20]) {
    const large = pieces < 1000 ? 700 : 65_535;
    const sent = [bytes(), bytes(1), pattern(large), bytes(2, 3), bytes(), pattern(1400)];
    const [raw, other] = duplexPair();
    const [stream, wire] = duplexPair();
    for (const datagram of sent) await datagrams(stream).write(datagram);
    await stream.closeWrite();
    const all = await readAll(wire);
    for (let at = 0; at < all.length; at += pieces) await raw.write(all.slice(at, at + pieces));
    await raw.closeWrite();
    const received = datagrams(other);
    for (const datagram of sent) assert.deepEqual(await received.read(), datagram);
    assert.equal(await received.read(), undefined);
  }
});

Deno.test("datagrams: one that is cut short, and one that is too long", async () => {
  for (const cut of [bytes(0), bytes(0, 2, 1)]) {
    const [raw, other] = duplexPair();
    await raw.write(cut);
    await raw.closeWrite();
    await assert.rejects(datagrams(other).read(), { code: "upstream_failed" });
  }
  const [stream] = duplexPair();
  await assert.rejects(datagrams(stream).write(new Uint8Array(65_536)), {
    code: "argument_invalid",
  });
});

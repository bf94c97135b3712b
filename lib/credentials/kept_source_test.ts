import assert from "node:assert/strict";
import type { Credential } from "./credential.ts";
import { KeptSource } from "./kept_source.ts";

const { signal } = new AbortController();

/** A source on a clock that the test moves. */
function source(make: (count: number) => Credential | Promise<Credential>, keepMs?: number) {
  const clock = { now: 1_000_000 };
  const told: string[] = [];
  let made = 0;
  const kept = new KeptSource({
    name: "c",
    make: async () => await make(made++),
    keepMs,
    notice: (text) => told.push(text),
    now: () => clock.now,
  });
  return { kept, clock, told, made: () => made };
}

Deno.test("kept source: values without an end are made once", async () => {
  const { kept, clock, made } = source(() => ({ values: { a: "1" } }));
  assert.deepEqual(await kept.get(signal), { values: { a: "1" } });
  clock.now += 1e12;
  await kept.get(signal);
  assert.equal(made(), 1);
});

Deno.test("kept source: renewed before the end, of its time or of its own", async () => {
  const byTime = source((count) => ({ values: { n: String(count) } }), 100_000);
  const first = await byTime.kept.get(signal);
  assert.equal(first.renewInMs, 80_000);
  assert.deepEqual(first.expiration, new Date(1_100_000));
  byTime.clock.now += 79_999;
  assert.equal((await byTime.kept.get(signal)).values.n, "0");
  byTime.clock.now += 1;
  assert.equal((await byTime.kept.get(signal)).values.n, "1");

  const hour = 3_600_000;
  const own = source((count) => (
    { values: { n: String(count) }, expiration: new Date(1_000_000 + hour * (count + 1)) }
  ));
  assert.equal((await own.kept.get(signal)).renewInMs, hour - 5 * 60_000);
  own.clock.now += hour - 5 * 60_000;
  assert.equal((await own.kept.get(signal)).values.n, "1");
});

Deno.test("kept source: several who ask at once share one making", async () => {
  const { kept, made } = source((count) => ({ values: { n: String(count) } }), 1000);
  await Promise.all([kept.get(signal), kept.get(signal), kept.get(signal)]);
  assert.equal(made(), 1);
});

Deno.test("kept source: a failed renewal leaves the old values, to their end", async () => {
  const { kept, clock, told } = source((count) => {
    if (count > 0) throw new Error("no network");
    return { values: { n: "0" } };
  }, 100_000);
  await kept.get(signal);
  clock.now += 90_000;
  const again = await kept.get(signal);
  assert.deepEqual([again.values, again.renewInMs], [{ n: "0" }, 30_000]);
  assert.match(told.join(), /credential c is not renewed yet: no network/);
  clock.now += 10_000;
  await assert.rejects(kept.get(signal), /no network/);
});

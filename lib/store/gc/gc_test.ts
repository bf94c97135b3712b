import assert from "node:assert/strict";
import { DigestSet } from "./digest_set.ts";
import { eachOf } from "./each.ts";
import { setClock } from "../../../test/fixtures/set_clock.ts";
import { LeaseTable } from "./lease_table.ts";
import { LocalGuard } from "./local_guard.ts";

const digest = (n: number) => `sha256:${n.toString(16).padStart(32, "0").padEnd(64, "a")}`;

Deno.test("a digest set holds what was added, through its growth, and nothing else", () => {
  const set = new DigestSet(16);
  for (let n = 0; n < 5000; n += 2) set.add(digest(n));
  set.add(digest(0));
  set.addKey("manifests/a/b");
  assert.equal(set.size, 2501);
  for (let n = 0; n < 5000; n++) assert.equal(set.has(digest(n)), n % 2 === 0);
  assert.equal(set.hasKey("manifests/a/b"), true);
  assert.equal(set.hasKey("manifests/a/c"), false);
  assert.ok(set.bytes < 5000 * 2 * 16 * 2);
});

Deno.test("a digest set is empty at first, and the digest of zeros is one like others", () => {
  const set = new DigestSet(8);
  const zeros = `sha256:${"0".repeat(64)}`;
  assert.deepEqual([set.size, set.bytes, set.has(zeros)], [0, 16 * 16, false]);
  set.add(zeros);
  set.add(zeros);
  assert.deepEqual([set.size, set.has(zeros), set.has(digest(1))], [1, true, false]);
});

Deno.test("leases count pushes, age with their repository, and not while it is sent to", () => {
  let now = 0;
  const table = new LeaseTable(100, () => now);
  table.add("a", "blob");
  table.add("a", "blob");
  table.add("b", "blob");
  table.remove("a", "blob");
  assert.deepEqual(table.leasesOf("a").map(({ count }) => count), [1]);
  table.remove("a", "blob");
  assert.deepEqual([table.leasesOf("a"), table.leasesOf("none")], [[], []]);
  table.remove("a", "blob");
  assert.equal(table.has("blob"), true);
  now = 90;
  table.add("b", "other");
  now = 150;
  table.expire(100);
  assert.equal(table.has("blob"), true);
  const busy = table.busy("b");
  now = 1000;
  table.expire(100);
  assert.equal(table.has("other"), true);
  busy[Symbol.dispose]();
  table.expire(100);
  assert.equal(table.has("other"), true);
  now = 1100;
  table.expire(100);
  assert.equal(table.size, 0);
});

Deno.test("leases of resting pushes end when another push goes on, after a quarter of their time", () => {
  let now = 0;
  const table = new LeaseTable(100, () => now);
  table.add("a", "blob");
  now = 90;
  table.add("b", "other");
  // All were looked at just before: not again for each key.
  now = 115;
  table.add("b", "third");
  assert.equal(table.has("blob"), true);
  now = 116;
  table.add("b", "third");
  assert.equal(table.has("blob"), false);
  assert.equal(table.has("other"), true);
});

Deno.test("a lease that ends lets go of its claim", () => {
  const table = new LeaseTable(100);
  let released = 0;
  const claim = { taken: 0, held: Promise.resolve(), release: () => void released++ };
  table.add("a", "one").claim = claim;
  table.add("a", "two").claim = claim;
  table.remove("a", "one");
  assert.equal(released, 1);
  table.expire(0);
  assert.equal(released, 2);
});

Deno.test("work on many items goes on some at a time, and ends with the first failure", async () => {
  let running = 0;
  let most = 0;
  const done: number[] = [];
  const work = async (n: number) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 0));
    running--;
    if (n === 20) throw new Error("twenty");
    done.push(n);
  };
  await eachOf(Array.from({ length: 20 }, (_, n) => n), 4, work);
  assert.deepEqual([most, done.length], [4, 20]);
  await assert.rejects(eachOf(Array.from({ length: 99 }, (_, n) => n), 4, work), /twenty/);
  assert.equal(running, 0);
  assert.ok(done.length < 20 + 25);
  async function* broken() {
    yield 1;
    throw new Error("unreadable");
  }
  await assert.rejects(eachOf(broken(), 4, work), /unreadable/);
  assert.equal(running, 0);
});

Deno.test("what may be of a push of before stays for its time, also when the clock is set forward", () => {
  const guard = new LocalGuard();
  const { from, to } = guard.unsureTime(60_000)!;
  assert.equal(to.getTime() - from.getTime(), 60_000);
  using _forward = setClock(3600_000);
  assert.equal(guard.unsureTime(60_000)?.from.getTime(), from.getTime());
});

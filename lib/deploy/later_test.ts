import assert from "node:assert/strict";
import { Later } from "./later.ts";

Deno.test("what fails or is not done is tried again, what is done is not", async () => {
  const later = new Later<string>(1);
  const tries: string[] = [];
  const over = Promise.withResolvers<void>();
  later.take("a", async () => {
    tries.push("a");
    if (tries.length === 1) throw new Error("not now");
    if (tries.length === 2) return await Promise.resolve(false);
    later.take("b", () => Promise.resolve(over.resolve()).then(() => true));
    return true;
  });
  await over.promise;
  assert.deepEqual(tries, ["a", "a", "a"]);
});

Deno.test("later work for the same key takes the place of earlier work, also of work that is under way", async () => {
  const later = new Later<string>(1);
  const begun = Promise.withResolvers<() => boolean>();
  const go = Promise.withResolvers<boolean>();
  let tries = 0;
  later.take("a", () => assert.fail("another one has taken its place"));
  later.take("a", (isLatest) => {
    tries++;
    begun.resolve(isLatest);
    return go.promise;
  });
  const isLatest = await begun.promise;
  assert.ok(isLatest());
  const other = Promise.withResolvers<void>();
  later.take("a", () => Promise.resolve(other.resolve()).then(() => true));
  assert.ok(!isLatest());
  go.resolve(false);
  await other.promise;
  assert.equal(tries, 1);
});

Deno.test("after the stop nothing is tried", async () => {
  const later = new Later<string>(1);
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<boolean>();
  later.take("a", () => {
    begun.resolve();
    return go.promise;
  });
  await begun.promise;
  later.take("b", () => assert.fail("it is stopped"));
  later.stop();
  later.take("c", () => assert.fail("it was stopped before"));
  // A timer that is set again would be told as a leak.
  go.resolve(false);
  await go.promise;
});

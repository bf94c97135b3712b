import assert from "node:assert/strict";
import { sleep } from "./sleep.ts";

Deno.test("sleep: a time that no timer can count does not end at once", async () => {
  const stop = new AbortController();
  let over = false;
  const long = sleep(2 ** 32, stop.signal).then(() => void (over = true));
  await sleep(20);
  stop.abort(new Error("stopped"));
  await assert.rejects(long, /stopped/);
  assert.equal(over, false);
});

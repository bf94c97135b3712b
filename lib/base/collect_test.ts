import assert from "node:assert/strict";
import { concat, readAtMost } from "./collect.ts";

Deno.test("collect: parts are joined in order; a stream that is too long is closed", async () => {
  assert.deepEqual(concat([]), new Uint8Array());
  assert.deepEqual(
    concat([Uint8Array.of(1, 2), Uint8Array.of(), Uint8Array.of(3)]),
    Uint8Array.of(1, 2, 3),
  );
  let closed = 0;
  const stream = () =>
    new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(10)),
      cancel: () => void closed++,
    });
  await assert.rejects(readAtMost(stream(), 25, () => new Error("too long")), /too long/);
  assert.equal(closed, 1);
  assert.equal((await readAtMost(ReadableStream.from([new Uint8Array(25)]), 25, Error)).length, 25);
  assert.equal((await readAtMost(null, 0, Error)).length, 0);
});

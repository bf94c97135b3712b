/** Bodies of builds that come slowly. */
import assert from "node:assert/strict";
import { TestClock } from "../../wire/testing.ts";
import { contextBody } from "./build_body.ts";

/** What of a body is read whose pieces come at the end of two minutes each; and whether it was let go. */
async function received(pieces: number[]) {
  const clock = new TestClock();
  let source: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => void (source = controller),
    cancel: () => void (cancelled = true),
  });
  const { stream } = contextBody(
    new Request("http://127.0.0.1/build", { method: "POST", body }),
    undefined,
    clock,
  );
  const reader = stream.getReader();
  let got = 0;
  try {
    for (const size of pieces) {
      const next = reader.read();
      next.catch(() => {/* awaited below */});
      await clock.move(119_000);
      if (!cancelled) source!.enqueue(new Uint8Array(size));
      got += (await next).value?.length ?? 0;
    }
    return { got };
  } catch (error) {
    return { got, error: (error as Error).message, cancelled };
  } finally {
    await reader.cancel().catch(() => {/* it has failed */});
  }
}

Deno.test("a context that comes byte by byte is given up, one over a slow link is not", async () => {
  assert.deepEqual(await received(Array(10).fill(1)), {
    got: 5,
    error: "Cannot read the build context: almost nothing arrived for 600 s",
    cancelled: true,
  });
  assert.deepEqual(await received(Array(15).fill(119 * 1024)), { got: 15 * 119 * 1024 });
});

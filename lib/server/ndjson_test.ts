import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { pullEvents, pushEvents } from "./ndjson.ts";

Deno.test("events: a source that ends, fails or goes on after its reader went away is not a failure", async () => {
  for (const outcome of ["end", "item", "failure"]) {
    const waiting = Promise.withResolvers<void>();
    const cancelled = Promise.withResolvers<void>();
    const over = Promise.withResolvers<void>();
    const source = async function* () {
      try {
        yield 1;
        waiting.resolve();
        await cancelled.promise;
        if (outcome === "failure") throw new Error("its signal");
        if (outcome === "item") yield 2;
      } finally {
        over.resolve();
      }
    };
    const told: unknown[] = [];
    const describe = (error: unknown) => {
      told.push(error);
      return new SvcError("internal", "Cannot: it was told");
    };
    const onCancel = () => cancelled.resolve();
    const reader = pullEvents(source(), { describe, onCancel }).body!.getReader();
    assert.equal(new TextDecoder().decode((await reader.read()).value), "1\n");
    await waiting.promise;
    await reader.cancel();
    await over.promise;
    // What follows from it has happened by then.
    await new Promise(setImmediate);
    assert.deepEqual(told, [], outcome);
  }
});

Deno.test("events: a failure is the last line", async () => {
  const failing = async function* () {
    yield 1;
    throw new Error("x");
  };
  const describe = () => new SvcError("conflict", "Cannot: because");
  const pulled = await pullEvents(failing(), { describe }).text();
  const pushed = await pushEvents((send) => {
    send(1);
    return Promise.reject(new Error("x"));
  }, { describe }).text();
  for (const text of [pulled, pushed]) {
    const [first, last, end] = text.split("\n");
    assert.deepEqual([first, JSON.parse(last).error.code, end], ["1", "conflict", ""]);
  }
});

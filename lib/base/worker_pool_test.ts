import assert from "node:assert/strict";
import { holdTimers } from "../../test/fixtures/held_timers.ts";
import { closeIdleWorkers, giveWorker, takeWorker, WORKER_IDLE_MS } from "./worker_pool.ts";

Deno.test("a Worker waits for its next job for a while, and then ends", () => {
  using timers = holdTimers(WORKER_IDLE_MS);
  try {
    const worker = takeWorker("pac");
    let ended = 0;
    const { terminate } = worker;
    worker.terminate = () => {
      ended++;
      terminate.call(worker);
    };
    giveWorker("pac", worker);
    assert.equal(takeWorker("pac"), worker);
    assert.equal(timers.fire(), 0, "one that works does not end");
    giveWorker("pac", worker);
    assert.equal(timers.fire(), 1);
    assert.equal(ended, 1);
    const next = takeWorker("pac");
    assert.notEqual(next, worker);
    next.terminate();
  } finally {
    closeIdleWorkers();
  }
});

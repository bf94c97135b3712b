import assert from "node:assert/strict";
import { type Health, HealthMonitor } from "./health.ts";

const plan = {
  command: ["/ok"],
  interval: 20,
  timeout: 50,
  startPeriod: 0,
  startInterval: 5,
  retries: 2,
};

/** Runs a monitor over these probe results until `count` changes were seen. */
async function changes(
  results: (boolean | "hang")[],
  count: number,
  more: Partial<typeof plan> = {},
): Promise<Health[]> {
  const seen: Health[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const monitor = new HealthMonitor({
    plan: { ...plan, ...more },
    probe: (_command, signal) => {
      const result = results.length > 1 ? results.shift() : results[0];
      if (result !== "hang") return Promise.resolve(result === true);
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    },
    onChange: (health) => {
      seen.push(health);
      if (seen.length === count) resolve();
    },
  });
  monitor.start();
  await promise;
  monitor.stop();
  return seen;
}

Deno.test("healthy, then unhealthy after the retries, then healthy again", async () => {
  assert.deepEqual(await changes([false, true, false, true, false, false, true], 3), [
    "healthy",
    "unhealthy",
    "healthy",
  ]);
});

Deno.test("a probe that never succeeds or hangs is unhealthy", async () => {
  assert.deepEqual(await changes([false], 1), ["unhealthy"]);
  assert.deepEqual(await changes(["hang"], 1), ["unhealthy"]);
});

Deno.test("failures within the start period do not count", async () => {
  const began = Date.now();
  await changes([false], 1, { startPeriod: 200 });
  assert.ok(Date.now() - began >= 200);
});

import assert from "node:assert/strict";
import { type Health, HealthMonitor, type ProbeResult } from "./health.ts";

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
      if (result !== "hang") return Promise.resolve({ code: result === true ? 0 : 1, output: "" });
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

Deno.test("how the last probe that failed ended, and what it printed", async () => {
  const told = async (probe: (signal: AbortSignal) => Promise<ProbeResult>) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const monitor = new HealthMonitor({
      plan: { ...plan, retries: 1 },
      probe: (_command, signal) => probe(signal),
      onChange: () => resolve(),
    });
    monitor.start();
    await promise;
    monitor.stop();
    return monitor.lastFailure;
  };
  assert.equal(
    await told(() => Promise.resolve({ code: 3, output: "no\nway\n" })),
    "exited with code 3 and printed this:\n  no\n  way",
  );
  assert.equal(
    await told(() => Promise.resolve({ code: 1, output: "" })),
    "exited with code 1 and printed nothing",
  );
  assert.equal(
    await told(() => Promise.reject(new Error("no shell"))),
    "could not be run: no shell",
  );
  const killed = (signal: AbortSignal) =>
    new Promise<ProbeResult>((resolve) => {
      signal.addEventListener("abort", () => resolve({ code: 137, output: "waiting" }));
    });
  assert.equal(await told(killed), "did not end within 0.05 s and printed this:\n  waiting");
});

Deno.test("what is reported: the failures in a row, and the probe that ended last", async () => {
  let told = 0;
  const ends = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const results: (ProbeResult | Error)[] = [
    { code: 0, output: "fine\n" },
    { code: 3, output: "no\n" },
    new Error("no shell"),
  ];
  const monitor = new HealthMonitor({
    plan: { ...plan, retries: 2 },
    probe: () => {
      const result = results.length > 1 ? results.shift()! : results[0];
      return result instanceof Error ? Promise.reject(result) : Promise.resolve(result);
    },
    onChange: () => ends[told++]?.resolve(),
  });
  assert.deepEqual(monitor.report, { state: "starting", failures: 0 });
  monitor.start();
  await ends[0].promise;
  const { last, ...first } = monitor.report;
  assert.deepEqual(first, { state: "healthy", failures: 0 });
  assert.deepEqual([last?.exitCode, last?.output], [0, "fine\n"]);
  await ends[1].promise;
  monitor.stop();
  const { state, failures, last: end } = monitor.report;
  assert.deepEqual([state, failures], ["unhealthy", 2]);
  assert.deepEqual([end?.exitCode, end?.output], [undefined, "could not be run: no shell"]);
});

Deno.test("a probe of what has ended, or ends at once, does not make it unhealthy", async () => {
  const ended = { ...plan, retries: 1, interval: 5 };
  const told: Health[] = [];
  const failing = () => Promise.resolve({ code: 1, output: "" });
  const asked = Promise.withResolvers<void>();
  const monitor = new HealthMonitor({
    plan: ended,
    probe: failing,
    onChange: (health) => told.push(health),
    lives: () => {
      asked.resolve();
      return Promise.resolve(false);
    },
  });
  monitor.start();
  await asked.promise;
  monitor.stop();
  const probed = Promise.withResolvers<void>();
  const stops = new HealthMonitor({
    plan: ended,
    probe: () => {
      // Its end is told right after the probe has failed.
      setTimeout(() => {
        stops.stop();
        probed.resolve();
      });
      return failing();
    },
    onChange: (health) => told.push(health),
  });
  stops.start();
  await probed.promise;
  await new Promise((resolve) => setTimeout(resolve, 150));
  assert.deepEqual(told, []);
});

Deno.test("a clock that is set back delays no health check", async () => {
  const now = Date.now;
  let time = now();
  Date.now = () => time -= 3600_000;
  try {
    assert.deepEqual(await changes([false], 1, { startPeriod: 20 }), ["unhealthy"]);
  } finally {
    Date.now = now;
  }
});

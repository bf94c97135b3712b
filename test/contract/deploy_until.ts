/** How far an apply goes before it answers, and instances that are made again or kept. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";
import { lines, quickSpec, shell, UNDECIDED } from "./deploy_tools.ts";

export function deployUntil(test: Test, under: DeployBackendUnderTest): void {
  const { backend, image } = under;
  const withName = (title: string, name: string, fn: (name: string) => Promise<void>) =>
    test(title, [], async () => {
      try {
        await fn(name);
      } finally {
        await backend().delete(name);
      }
    });
  const states = async (name: string) =>
    (await backend().status(name))!.instances.map(({ state }) => state);
  const starts = async (name: string) =>
    (await backend().status(name))!.instances.map(({ startedAt }) => startedAt);

  withName("until started: an apply does not wait for health", "until-health", async (name) => {
    const spec = quickSpec(name, image, { healthcheck: UNDECIDED });
    const { action } = await backend().apply(spec, {}, { until: "started" });
    assert.equal(action, "created");
    assert.deepEqual(await states(name), ["running"]);
  });

  withName("until started: what fails stays, to be looked at", "until-exit", async (name) => {
    const spec = quickSpec(name, image, { command: shell("echo sad; exit 4"), restart: "no" });
    await backend().apply(spec, {}, { until: "started" });
    await eventually("its end", async () => (await states(name))[0] === "exited");
    assert.equal((await backend().status(name))!.instances[0].exitCode, 4);
    assert.deepEqual(await lines(backend(), name), ["sad"]);
  });

  withName("until created: nothing runs before a start", "until-created", async (name) => {
    const spec = quickSpec(name, image, { command: shell("echo begun; exec sleep 1000") });
    await backend().apply(spec, {}, { until: "created" });
    assert.equal((await backend().status(name))!.state, "stopped");
    assert.deepEqual(await states(name), ["created"]);
    await under.reopen();
    assert.deepEqual(await states(name), ["created"]);
    assert.deepEqual(await lines(backend(), name), []);
    await backend().power(name, "start");
    assert.deepEqual(await states(name), ["running"]);
    await eventually("its output", async () => (await lines(backend(), name))[0] === "begun");
  });

  withName("recreate: unchanged instances are replaced too", "recreate", async (name) => {
    const spec = quickSpec(name, image);
    await backend().apply(spec);
    const before = await starts(name);
    assert.equal((await backend().apply(spec)).action, "unchanged");
    assert.deepEqual(await starts(name), before);
    assert.equal((await backend().apply(spec, {}, { recreate: true })).action, "replaced");
    assert.notDeepEqual(await starts(name), before);
  });

  withName("another number of replicas leaves the others as they are", "scale", async (name) => {
    const spec = (replicas: number) => quickSpec(name, image, { replicas });
    await backend().apply(spec(1));
    const [first] = await starts(name);
    await backend().apply(spec(2));
    assert.equal((await starts(name)).length, 2);
    assert.equal((await starts(name))[0], first);
    await backend().apply(spec(1));
    assert.deepEqual(await starts(name), [first]);
  });
}

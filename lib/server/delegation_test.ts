/** Where a server has its images built. */
import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { createLogger } from "../base/log.ts";
import type { DelegationOptions } from "./delegation.ts";
import { testDelegation as delegation } from "./testing.ts";

Deno.test("delegation: by URL, in process where it can build, else by a container or not at all", async () => {
  const lines: Record<string, unknown>[] = [];
  const log = createLogger({
    level: "info",
    format: "json",
    write: (line: string) => void lines.push(JSON.parse(line)),
  });
  let starts = 0;
  const start = () => {
    if (starts++ === 0) return Promise.reject(new SvcError("prerequisite_missing", "no engine"));
    return Promise.resolve({ url: "ws://127.0.0.1:7777", token: "of the builder" });
  };
  const container = () => Promise.resolve({ start, ready: () => Promise.resolve() });
  const target = async (options: Partial<DelegationOptions>) =>
    String(await delegation({ log, ...options }).target());
  assert.equal(await target({ url: "ws://b:1", canBuild: () => assert.fail() }), "ws://b:1/");
  assert.equal(await target({ canBuild: () => true, container }), "undefined");
  assert.deepEqual([lines.length, starts], [0, 0]);
  for (const options of [{}, { auto: false }, { auto: false, container }]) {
    await assert.rejects(
      target(options),
      (error) =>
        error instanceof SvcError && error.code === "prerequisite_missing" &&
        error.message === "Cannot build: failed to mount /data: operation not permitted",
    );
  }
  const automatic = delegation({ log, container });
  await assert.rejects(automatic.target(), /no engine/);
  const both = await Promise.all([automatic.target(), automatic.target()]);
  const reached = "ws://:of%20the%20builder@127.0.0.1:7777/";
  assert.deepEqual(both.map(String), [reached, reached]);
  assert.equal(starts, 2);
  // Each build asks: a builder that has ended is started again.
  assert.equal(String(await automatic.target()), reached);
  assert.equal(starts, 3);
  assert.deepEqual(lines.slice(1).map(({ msg, url }) => [msg, url]), [
    ["build engine cannot mount(2) as this user; using a containerized builder", undefined],
    ["delegating builds to containerized builder", "ws://127.0.0.1:7777"],
  ]);
});

Deno.test("delegation: where builds are to run is told without starting anything", async () => {
  const start = () => assert.fail("started");
  const container = (ready: () => Promise<void>) => () => Promise.resolve({ start, ready });
  const plan = (options: Partial<DelegationOptions>) => delegation(options).plan();
  assert.deepEqual(await plan({ url: "ws://b:1" }), { at: "builder" });
  assert.deepEqual(await plan({ canBuild: () => true }), { at: "here" });
  const there = container(() => Promise.resolve());
  assert.deepEqual(await plan({ container: there }), { at: "container" });
  const off = await plan({ container: there, auto: false });
  assert.equal(off.at, "nowhere");
  assert.match(off.reason!, /^Cannot build: failed to mount \/data.*; .*SVC_BUILDER_URL/);
  const gone = new SvcError("unavailable", "Cannot reach the engine", {
    detail: { daemon: "gone" },
  });
  const absent = await plan({ container: container(() => Promise.reject(gone)) });
  assert.equal(absent.at, "nowhere");
  assert.match(absent.reason!, /failed to mount .*: Cannot reach the engine$/);
});

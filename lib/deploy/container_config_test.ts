import assert from "node:assert/strict";
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { ContainerConfig } from "../oci/types.ts";
import { containerPlan, imageWarnings } from "./container_config.ts";

const spec = (more: Partial<DeploySpec> = {}): DeploySpec => ({
  name: "web",
  image: "app",
  env: {},
  ports: [],
  mounts: [],
  volumes: [],
  networks: [],
  restart: "no",
  replicas: 1,
  ...more,
});

Deno.test("entrypoint and command merge as docker has it", () => {
  const image = { Entrypoint: ["/e"], Cmd: ["c"] };
  assert.deepEqual(containerPlan(spec(), image).args, ["/e", "c"]);
  assert.deepEqual(containerPlan(spec({ command: ["x"] }), image).args, ["/e", "x"]);
  assert.deepEqual(containerPlan(spec({ entrypoint: ["/f"] }), image).args, ["/f"]);
  assert.deepEqual(containerPlan(spec({ entrypoint: [], command: ["x"] }), image).args, ["x"]);
  assert.throws(() => containerPlan(spec({ entrypoint: [] }), image), { code: "spec_invalid" });
});

Deno.test("environment, user, folder and stop settings: the spec wins, then the image", () => {
  const image = {
    Cmd: ["c"],
    Env: ["PATH=/bin", "A=1", "B=2"],
    User: "web",
    WorkingDir: "/srv",
    StopSignal: "SIGINT",
  };
  const plan = containerPlan(spec({ env: { B: "3", C: "4=5" } }), image);
  assert.deepEqual(plan.env, ["PATH=/bin", "A=1", "B=3", "C=4=5"]);
  assert.deepEqual(
    [plan.user, plan.workingDir, plan.stopSignal, plan.stopGrace],
    ["web", "/srv", "2", 10_000],
  );
  const own = containerPlan(
    spec({ user: "7", workingDir: "/w", stopSignal: "SIGQUIT", stopGracePeriod: "1m" }),
    image,
  );
  assert.deepEqual(
    [own.user, own.workingDir, own.stopSignal, own.stopGrace],
    ["7", "/w", "3", 60_000],
  );
});

Deno.test("an image's unknown stop signal is told, and SIGTERM sent", () => {
  const image = { Cmd: ["c"], StopSignal: "SIGNOPE" };
  assert.equal(containerPlan(spec(), image).stopSignal, "15");
  assert.match(imageWarnings(spec(), image).join(), /"SIGNOPE" is not a signal; SIGTERM is sent/);
  assert.deepEqual(imageWarnings(spec({ stopSignal: "SIGRTMIN+3" }), image), []);
  assert.equal(containerPlan(spec({ stopSignal: "rtmin+3" }), image).stopSignal, "37");
});

Deno.test("volumes of the image, by their whole paths", () => {
  const image = { Cmd: ["c"], Volumes: { "/data": {}, "/a/../b/": {}, "c": {}, "/": {} } };
  assert.deepEqual(containerPlan(spec(), image).volumes, ["/data", "/b", "/c"]);
});

Deno.test("an image's words that would end a line of an engine's configuration are refused", () => {
  const refused = (image: ContainerConfig, message: RegExp) =>
    assert.throws(() => containerPlan(spec(), { Cmd: ["c"], ...image }), {
      code: "spec_invalid",
      message,
    });
  refused({ WorkingDir: "/a\nlxc.hook.pre-start = /bin/evil" }, /its working directory/);
  refused({ User: "root\r" }, /its user/);
  refused({ Cmd: ["a\0b"] }, /its command/);
  refused({ Env: ["A\nB=1"] }, /its environment variable "A\\nB"/);
  refused({ Env: ["A=1\0"] }, /its environment variable "A"/);
  // Values have lines of their own, and commands scripts; the spec's words replace the image's.
  const fine = { Cmd: ["sh", "-c", "a\nb"], Env: ["A=1\n2"], WorkingDir: "/\n" };
  assert.equal(containerPlan(spec({ workingDir: "/w" }), fine).workingDir, "/w");
});

Deno.test("health checks: spec over image, shell form, NONE", () => {
  const image = { Cmd: ["c"], Healthcheck: { Test: ["CMD", "/ok"], Interval: 2e9, Retries: 5 } };
  assert.deepEqual(containerPlan(spec(), image).health, {
    command: ["/ok"],
    interval: 2000,
    timeout: 30_000,
    startPeriod: 0,
    startInterval: 5000,
    retries: 5,
  });
  const own = containerPlan(
    spec({ healthcheck: { test: ["CMD-SHELL", "true"], interval: "1s", timeout: "500ms" } }),
    image,
  ).health;
  assert.deepEqual(own?.command, ["/bin/sh", "-c", "true"]);
  assert.deepEqual([own?.interval, own?.timeout], [1000, 500]);
  assert.equal(containerPlan(spec({ healthcheck: { test: ["NONE"] } }), image).health, undefined);
});

import assert from "node:assert/strict";
import type { DeploymentStatus } from "../api/deployment.ts";
import type { Action } from "../api/route.ts";
import { shownTo } from "./status_shown.ts";
import { STATUS } from "./testing.ts";

const PRINTED = "password=hunter2";
const status: DeploymentStatus = {
  ...STATUS,
  error: `Cannot deploy web: instance web-0 exited with code 1; its last log lines:\n  ${PRINTED}`,
  instances: [
    {
      ...{ id: "web-0", state: "unhealthy", restarts: 0 },
      message: `its last health check exited with code 1: ${PRINTED}`,
      health: {
        state: "unhealthy",
        failures: 3,
        last: { time: "2026-01-01T00:00:00Z", exitCode: 1, output: PRINTED },
      },
    },
    { id: "web-1", state: "exited", restarts: 2, exitCode: 3, message: "it used more memory" },
  ],
};

const shown = (...granted: Action[]) =>
  shownTo(
    {
      access: { allows: (_identity: unknown, action: Action) => granted.includes(action) } as never,
    },
    { subject: "somebody", scopes: [] },
    status,
  );

Deno.test("what a workload prints is in no status for who may see neither its logs nor its files", () => {
  assert.deepEqual(shown("read", "logs"), status);
  assert.deepEqual(shown("read", "exec"), status);
  const read = shown("read");
  assert.doesNotMatch(JSON.stringify(read), /hunter2/);
  const [first, second] = read.instances;
  assert.equal(first.health?.failures, 3);
  assert.equal(first.health?.last?.exitCode, 1);
  assert.deepEqual(second, status.instances[1]);
  assert.ok(read.error);
});

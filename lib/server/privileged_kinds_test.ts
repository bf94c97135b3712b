import assert from "node:assert/strict";
import { PRIVILEGED_KINDS as configured } from "../config/server/workloads.ts";
import { PRIVILEGED_KINDS } from "../deploy/privileges.ts";

Deno.test("SVC_ALLOW_PRIVILEGED knows the kinds that the policy knows", () => {
  assert.deepEqual(configured, PRIVILEGED_KINDS);
});

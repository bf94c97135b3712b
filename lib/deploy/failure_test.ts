import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { failure } from "./failure.ts";

Deno.test("why an instance failed is told where its log cannot be read too", async () => {
  const { code, message } = await failure({
    ...{ deployment: "web", id: "web-0" },
    // deno-lint-ignore require-yield
    async *log() {
      throw new SvcError("upstream_failed", "Cannot read the logs: the engine is busy");
    },
  }, "exited with code 3");
  assert.equal(code, "deploy_failed");
  assert.match(
    message,
    /web-0 exited with code 3; .* could not be read: Cannot read the logs: the/,
  );
});

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

Deno.test("the last lines of what failed are told", async () => {
  class Instance {
    readonly deployment = "web";
    readonly id = "web-0";
    readonly #words = "cannot start\r";

    async *log() {
      yield await Promise.resolve([
        { time: "", instance: this.id, stream: "stdout" as const, line: this.#words },
      ]);
    }
  }
  const { message } = await failure(new Instance(), "exited with code 9");
  assert.equal(
    message,
    "Cannot deploy web: instance web-0 exited with code 9; its last log lines:\n  cannot start",
  );
});

import { deepEqual, equal } from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { fromProblem, toProblem } from "./problem.ts";

Deno.test("a problem crosses the wire whole", () => {
  const error = new SvcError("build_failed", "Cannot build: step 3 failed", {
    help: "look above",
    detail: { line: 3 },
  });
  const problem = toProblem(error);
  equal(problem.status, 422);
  const back = fromProblem(JSON.parse(JSON.stringify(problem)));
  deepEqual(
    [back.code, back.message, back.help, back.detail],
    [error.code, error.message, error.help, error.detail],
  );
});

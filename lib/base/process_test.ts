import { equal, rejects, throws } from "node:assert/strict";
import { run, runOk, startProgram } from "./process.ts";

Deno.test("run: output, exit code and input", async () => {
  const result = await run("sh", ["-c", "cat; echo err >&2; exit 3"], { stdin: "in" });
  equal(result.code, 3);
  equal(result.stdout, "in");
  equal(result.stderr, "err\n");
});

Deno.test("run: a missing program, an abort, a failure", async () => {
  await rejects(run("no-such-program", []), {
    code: "prerequisite_missing",
    message: "Cannot run no-such-program: it is not on PATH",
  });
  const missing = { what: "Cannot frobnicate: the program no-such-program", help: "install it" };
  throws(() => startProgram("no-such-program", {}, missing), {
    code: "prerequisite_missing",
    message: "Cannot frobnicate: the program no-such-program is not on PATH",
    help: "install it",
  });
  await rejects(run("sleep", ["30"], { signal: AbortSignal.timeout(50) }), {
    name: "TimeoutError",
  });
  await rejects(runOk("Cannot frobnicate", "sh", ["-c", "echo why >&2; exit 4"]), {
    message: "Cannot frobnicate: sh exited with 4: why",
  });
  const full = ["-c", "echo 'cp: error writing x: No space left on device' >&2; exit 1"];
  await rejects(runOk("Cannot frobnicate", "sh", full), { code: "storage_full" });
});

import assert from "node:assert/strict";
import { join } from "node:path";
import { createRuntime, runtimeVersion } from "./runc.ts";

Deno.test("a missing runtime names its package; something else is not a runtime", async () => {
  await assert.rejects(runtimeVersion("/nonexistent/crun"), {
    code: "prerequisite_missing",
    help: /apt-get install crun/,
  });
  await assert.rejects(runtimeVersion("/bin/false"), { code: "prerequisite_missing" });
});

/** A runtime whose every call appends its arguments to a file and which knows one container. */
async function fakeRuntime(dir: string): Promise<string> {
  const path = join(dir, "runc");
  await Deno.writeTextFile(
    path,
    `#!/bin/sh
echo "$*" >> ${dir}/calls
[ "$1" = --version ] && { echo "fake version 1.2.3"; exit 0; }
shift 2
case "$1 $2" in
  "state a") echo '{"id":"a","pid":7,"status":"running","bundle":"/b"}' ;;
  "list --format") echo '[{"id":"a","pid":7,"status":"running","bundle":"/b"}]' ;;
  "start a"|"kill --all"|"delete a") ;;
  *) echo 'time="now" level=error msg="no such \\"thing\\""' >&2; exit 1 ;;
esac
`,
    { mode: 0o755 },
  );
  return path;
}

Deno.test("calls carry --root; what is gone is undefined or fine, what fails throws its words", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const runtime = await createRuntime({ binary: await fakeRuntime(dir), root: "/state" });
    assert.equal(runtime.version, "fake version 1.2.3");
    assert.deepEqual(await runtime.state("a"), {
      id: "a",
      pid: 7,
      status: "running",
      bundle: "/b",
    });
    assert.equal(await runtime.state("b"), undefined);
    await runtime.kill("b", "TERM");
    await runtime.delete("b", { force: true });
    await runtime.kill("a", 9, { all: true });
    await assert.rejects(runtime.start("b"), /no such "thing"/);
    assert.deepEqual(runtime.command("exec", "a"), [
      runtime.binary,
      ["--root", "/state", "exec", "a"],
    ]);
    const calls = (await Deno.readTextFile(join(dir, "calls"))).split("\n");
    assert.ok(calls.includes("--root /state kill --all a 9"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

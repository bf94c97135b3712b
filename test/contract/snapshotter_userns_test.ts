/**
 * The snapshotter's contract once more in a user namespace, where overlay's marks are other attributes and
 * devices cannot be made: the layers of overlay, which is what differs there.
 */
import assert from "node:assert/strict";
import { canMount } from "../../lib/sys/mount.ts";
import { inUserNamespace } from "../../lib/sys/userns.ts";

const TESTS =
  "/overlay: (diff and apply|white-outs|an opaque root|folders a layer|devices|a chain)/";

/** Without the last ids, or it would be the host's own map. */
const MAP = "0 0 4294967290\n";

Deno.test({
  name: "snapshotter overlay in a user namespace",
  ignore: !canMount() || inUserNamespace(),
  fn: async () => {
    const suite = new URL("./snapshotter_test.ts", import.meta.url).pathname;
    // It tells that the namespace is there, waits for its ids, and becomes root with them.
    const script = 'echo; read line; exec setpriv --reuid 0 --regid 0 --clear-groups "$@"';
    const child = new Deno.Command("unshare", {
      args: ["--user", "--mount", "sh", "-c", script, "sh", Deno.execPath(), "test", "-A"]
        .concat("--no-check", "--filter", TESTS, suite),
      env: { NO_COLOR: "1" },
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const errors = new Response(child.stderr).text();
    const output = child.stdout.getReader();
    await output.read();
    for (const kind of ["uid", "gid"]) {
      await Deno.writeTextFile(`/proc/${child.pid}/${kind}_map`, MAP);
    }
    const input = child.stdin.getWriter();
    await input.write(new TextEncoder().encode("\n"));
    await input.close();
    let text = "";
    const decoder = new TextDecoder();
    for (let part = await output.read(); !part.done; part = await output.read()) {
      text += decoder.decode(part.value, { stream: true });
    }
    const { code } = await child.status;
    assert.equal(code, 0, text + await errors);
    assert.match(text, /ok \| 7 passed/);
  },
});

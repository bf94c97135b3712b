import assert from "node:assert/strict";
import { entrypoint } from "./entrypoint.ts";

Deno.test("a command's words stay apart, with white space and quotes of one kind", () => {
  assert.deepEqual(entrypoint("web", ["/bin/app", "--name=a b", "it's", "100%"]), {
    "oci.entrypoint": `/bin/app '--name=a b' 'it'"'"'s' 100%`,
  });
});

Deno.test("a shell's script that no line holds comes in a variable", () => {
  const keys = entrypoint("web", ["/bin/sh", "-ec", `echo "it's"\necho two\\n`, "name"]);
  assert.match(keys["oci.entrypoint"], /^\/bin\/sh -ec '.*SVC_COMMAND.*' name$/);
  assert.equal(keys["environment.SVC_COMMAND"], `echo "it's"\\necho two\\\\n`);
  for (const value of Object.values(keys)) assert.doesNotMatch(value, /[\r\n]/);
});

Deno.test("other commands with such words are refused: no line of the daemon's ends in one", () => {
  for (const words of [["app", "a\nlxc.hook.start = x"], ["app", `'"`], ["sh", "-c", "x", "\r"]]) {
    assert.throws(() => entrypoint("web", words), {
      code: "unsupported",
      message: /Cannot deploy web: Incus takes no argument/,
    });
  }
});

import assert from "node:assert/strict";
import { execve } from "./exec.ts";

Deno.test({
  name: "execve: another program takes this one's place",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const script = `import { execve } from ${JSON.stringify(import.meta.resolve("./exec.ts"))};
      execve("/bin/sh", ["sh", "-c", 'echo "$$ $1 $WORD"; exit 3', "sh", "ärg ü"],
        { WORD: "a=b", NONE: undefined });`;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["eval", "--no-check", script],
      stdout: "piped",
    }).spawn();
    const { code, stdout } = await child.output();
    assert.equal(code, 3);
    assert.equal(new TextDecoder().decode(stdout), `${child.pid} ärg ü a=b\n`);
  },
});

Deno.test({
  name: "execve: what cannot be started is an error of this process",
  ignore: Deno.build.os !== "linux",
  fn: () => {
    assert.throws(() => execve("/nonexistent/program", ["x"], {}), { code: "ENOENT" });
    assert.throws(() => execve("/bin/true", ["a\0b"], {}), { code: "EINVAL" });
  },
});

import assert from "node:assert/strict";
import { requireTools } from "../../test/e2e/harness.ts";
import { proven, proveRuntime } from "./proof.ts";
import { createRuntime } from "./runc.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"] });

Deno.test({
  name: "runtime proof: a container runs; what is not a runtime is refused with its own words",
  ignore,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-proof-" });
    try {
      const open = (binary: string) => createRuntime({ binary, root: `${folder}/state` });
      await proveRuntime(await open("runc"), folder);
      // GNU's programs say their version as runtimes do.
      await assert.rejects(async () => await proveRuntime(await open("/bin/ls"), folder), {
        code: "prerequisite_missing",
        message: /ran no container on this host \(exit code 2: .*--root/,
      });
      // As crun says where both versions of cgroups are mounted.
      const odd = `${folder}/odd`;
      const script =
        '#!/bin/sh\n[ "$1" = --version ] && echo odd 1.0 && exit\necho hybrid >&2; exit 1\n';
      await Deno.writeTextFile(odd, script, { mode: 0o755 });
      const place = { folder, runDir: folder };
      await assert.rejects(async () => await proven(await open(odd), place), /exit code 1: hybrid/);
      await proven(await open("runc"), place);
      const noted = await Deno.readTextFile(`${folder}/proven.json`);
      assert.match(noted, /\/runc /);
      assert.doesNotMatch(noted, /odd/);
      const again = await open("runc");
      const command = (...args: string[]) => {
        assert.ok(!args.includes("--bundle"), "noted, it is not run again");
        return again.command(...args);
      };
      await proven({ ...again, command }, place);
      const left = [...Deno.readDirSync(folder)].map(({ name }) => name);
      assert.deepEqual(left.filter((name) => name.startsWith("proof-")), []);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

import assert from "node:assert/strict";
import { buildState, makeRunDir, runDir } from "./state_dir.ts";

const unix = Deno.build.os !== "windows";

Deno.test({
  name: "state dir: root's, the login session's where it is one's own, else one in /tmp",
  ignore: !unix,
  fn: async () => {
    const own = await Deno.makeTempDir();
    try {
      assert.equal(await runDir({ uid: 0, env: { XDG_RUNTIME_DIR: own } }), "/run/svc");
      const uid = 58999;
      assert.equal(await runDir({ uid, env: { XDG_RUNTIME_DIR: own } }), `${own}/svc`);
      for (const XDG_RUNTIME_DIR of [undefined, "", `${own}/none`]) {
        assert.equal(await runDir({ uid, env: { XDG_RUNTIME_DIR } }), `/tmp/svc-run-${uid}`);
      }
      assert.notEqual(buildState("/run/svc", "/a"), buildState("/run/svc", "/b"));
    } finally {
      await Deno.remove(own);
    }
  },
});

Deno.test({
  name: "state dir: a folder that others may write, or a link, is refused",
  ignore: !unix,
  fn: async () => {
    const parent = await Deno.makeTempDir();
    try {
      const folder = `${parent}/svc`;
      await makeRunDir(folder);
      await makeRunDir(folder);
      assert.equal((await Deno.stat(folder)).mode! & 0o777, 0o700);
      await Deno.chmod(folder, 0o777);
      await assert.rejects(makeRunDir(folder), { code: "denied" });
      await Deno.chmod(folder, 0o700);
      await Deno.symlink(folder, `${parent}/link`);
      await assert.rejects(makeRunDir(`${parent}/link`), { code: "denied" });
    } finally {
      await Deno.remove(parent, { recursive: true });
    }
  },
});

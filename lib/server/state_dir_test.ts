import assert from "node:assert/strict";
import { buildState, runDir } from "./state_dir.ts";

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

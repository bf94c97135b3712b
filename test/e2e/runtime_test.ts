/** What a server says of a host on which it cannot run containers: at its start, and when it is asked. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { e2eTest, startServer, svc } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables"] };

async function withDir(body: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "svc-runtime-" });
  try {
    await body(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

e2eTest(
  "a runtime that runs no container is refused at the start",
  NEEDS,
  () =>
    withDir(async (dir) => {
      // What crun says where both versions of cgroups are mounted; it tells its version all the same.
      const hybrid = join(dir, "hybrid");
      const script =
        '#!/bin/sh\n[ "$1" = --version ] && echo hybrid 1.8 && exit\necho no cgroups >&2\nexit 1\n';
      await Deno.writeTextFile(hybrid, script, { mode: 0o755 });
      for (
        const [runtime, why] of [["/bin/ls", /--root/], [
          hybrid,
          /exit code 1: no cgroups/,
        ]] as const
      ) {
        const { code, stderr } = await svc(
          ["serve", "--addr", "127.0.0.1:0", "--data-dir", join(dir, "data")],
          { env: { SVC_DEPLOY_BACKEND: "bare", SVC_BARE_RUNTIME: runtime } },
        );
        assert.equal(code, 2, stderr);
        assert.match(
          stderr,
          /Cannot use SVC_RUNTIME: Cannot use OCI runtime .* ran no container/,
        );
        assert.match(stderr, why);
      }
    }),
);

e2eTest("info tells that, and why, this server cannot deploy", NEEDS, () =>
  withDir(async (dir) => {
    {
      await using server = await startServer({ env: { SVC_CNI_BIN_DIR: dir } });
      const { stdout } = await server.svc(["info"]);
      assert.match(stdout, /Available:? +no/i);
      assert.match(stdout, /CNI plugin bridge is not in/);
      const { deploy } = await (await fetch(`${server.url}/.svc/v1/info`)).json();
      assert.equal(deploy.available, false);
    }
    await using server = await startServer({});
    const { deploy } = await (await fetch(`${server.url}/.svc/v1/info`)).json();
    assert.deepEqual([deploy.available, deploy.reason], [true, undefined]);
  }));

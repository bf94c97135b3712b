/** The podman backend on a podman of an ordinary user. */
import assert from "node:assert/strict";
import { requireTools } from "../e2e/harness.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";
import { PODMAN_COMMANDS, PODMAN_FILES } from "../peers/podman.ts";
import { execute, quickSpec } from "./deploy_tools.ts";
import { podmanFixture } from "./podman_fixture.ts";

for (const version of ["4.3", "5"] as const) {
  const files = version === "5" ? [UNSTABLE_READY] : PODMAN_FILES;
  Deno.test({
    name:
      `podman ${version}, rootless: a deployment runs, and a connection to its port is refused at once`,
    ignore: requireTools({ root: true, commands: PODMAN_COMMANDS, files }).ignore,
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using fixture = await podmanFixture({ version, rootless: true });
      const backend = await fixture.open([]);
      try {
        const spec = quickSpec("own", fixture.image, { ports: ["18080:8080"] });
        const { deployment } = await backend.apply(spec);
        assert.equal(deployment.state, "running");
        const { stdout } = await execute(backend, "own", { command: ["id", "-u"] });
        assert.equal(stdout, "0\n");
        for (const protocol of ["tcp", "udp"] as const) {
          await assert.rejects(backend.dial("own", 8080, protocol), {
            code: "unsupported",
            message: /rootless/,
          });
        }
        assert.equal(await backend.delete("own"), true);
      } finally {
        await backend[Symbol.asyncDispose]();
      }
    },
  });
}

import assert from "node:assert/strict";
import { loadServerSettings } from "../../lib/config/server_options.ts";
import { silent } from "../../lib/base/log.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";
import { executorContract } from "../../test/contract/executor.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { selectWorker, WORKER_TABLES } from "./mod.ts";
import { createRuncExecutor } from "./runc.ts";

/** crun refuses a host where both versions of cgroups have controllers; runc does not mind. */
function hybridCgroups(): boolean {
  try {
    const unified = "/sys/fs/cgroup/unified/cgroup.controllers";
    return Deno.readTextFileSync(unified).trim() !== "";
  } catch {
    return false; // no such hierarchy
  }
}

for (const binary of ["runc", "crun"]) {
  const { ignore } = requireTools({ root: true, commands: [binary], files: ["/bin/busybox"] });
  const refused = binary === "crun" && hybridCgroups();
  executorContract({
    name: refused ? "crun (needs a host without hybrid cgroups)" : binary,
    ignore: ignore || refused,
    async open() {
      const folder = await Deno.makeTempDir({ prefix: "svc-executor-" });
      const runtime = await createRuntime({ binary, root: `${folder}/state` });
      const open = () => createRuncExecutor({ runtime, bundles: `${folder}/bundles` });
      return {
        executor: open(),
        folder,
        containers: async () => (await runtime.list()).map(({ id }) => id),
        reopen: () => Promise.resolve(open()),
        [Symbol.asyncDispose]: async () => {
          for (const { id } of await runtime.list()) await runtime.delete(id, { force: true });
          await Deno.remove(folder, { recursive: true });
        },
      };
    },
  });
}

Deno.test("build workers are chosen by name", async () => {
  const select = (env: Record<string, string>) =>
    selectWorker(loadServerSettings([], env, WORKER_TABLES).settings);
  assert.throws(() => select({ SVC_BUILD_WORKER: "runk" }), {
    code: "config_invalid",
    message: /"runk" is not one of runc, containerd/,
  });
  assert.equal(select({ SVC_BUILD_WORKER: "containerd" }).needsRoot, true);
  const parts = {
    root: "/nonexistent",
    state: "/nonexistent",
    runDir: "/nonexistent",
    log: silent,
  };
  for (const variable of ["SVC_RUNTIME", "SVC_BARE_RUNTIME"]) {
    await assert.rejects(select({ [variable]: "/nonexistent/runc" }).open(parts), {
      code: "prerequisite_missing",
      message: /\/nonexistent\/runc/,
    });
  }
});

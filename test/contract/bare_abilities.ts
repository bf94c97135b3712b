/** The abilities of the bare backend beyond the contract: where it reads them, and what it leaves on the host. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { runtimeUsage, statsSourceOf } from "../../backends/deploy/bare/usage.ts";
import { hostPaths } from "../../lib/deploy/host/paths.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";
import { quickSpec } from "./deploy_tools.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";

export function bareAbilities(test: OwnTest, under: HostUnderTest): void {
  const { backend, image, dataDir } = under;

  test("stats: the runtime tells what the host's cgroup files tell", async () => {
    try {
      const resources = { memoryLimit: 64 * 1024 ** 2 };
      await backend().apply(quickSpec("told", image, { resources }));
      const [{ key }] = JSON.parse(
        await Deno.readTextFile(join(dataDir, "bare/deployments/told.json")),
      ).instances;
      const { runtime: root } = hostPaths("bare", dataDir, join(dataDir, "run"));
      const runtime = await createRuntime({ binary: "runc", root });
      const [sample] = await Array.fromAsync(backend().caps.stats!("told"));
      const told = await runtimeUsage(runtime, key);
      assert.equal(told.memoryLimit, sample.memoryLimit);
      assert.equal(told.processes, sample.processes);
      assert.ok(told.cpu >= sample.cpu && sample.cpu > 0);
      assert.ok(told.memory > 0 && told.memory < resources.memoryLimit);
      await assert.rejects(runtimeUsage(runtime, "nobody"), {
        code: "upstream_failed",
        help: /SVC_BARE_STATS_SOURCE=cgroup/,
      });
    } finally {
      await backend().delete("told");
    }
    const names = ["runc", "/usr/bin/crun", "youki", "/opt/runsc", "runsc-debug"];
    const sources = ["cgroup", "cgroup", "cgroup", "runtime", "runtime"];
    assert.deepEqual(names.map(statsSourceOf), sources);
  });
}

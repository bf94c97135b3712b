/** The abilities of the bare backend beyond the contract: where it reads them, and what it leaves on the host. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { runtimeUsage, statsSourceOf } from "../../backends/deploy/bare/usage.ts";
import { hostPaths } from "../../lib/deploy/host/paths.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";
import { eventually } from "../waits.ts";
import { quickSpec } from "./deploy_tools.ts";
import type { OwnTest } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";

export function bareAbilities(test: OwnTest, under: HostUnderTest): void {
  const { backend, image, dataDir } = under;

  /** Processes whose output goes to a file of the data folder: those that hold inputs open. */
  const holders = async () => {
    const found: string[] = [];
    for await (const { name } of Deno.readDir("/proc")) {
      const output = await Deno.readLink(`/proc/${name}/fd/1`).catch(() => "");
      if (output.startsWith(dataDir)) found.push(output);
    }
    return found;
  };

  test("attach: what holds an input open goes with the container, and with the input", async () => {
    try {
      const spec = { command: ["cat"], stdinOpen: true, restart: "no" };
      await backend().apply(quickSpec("held", image, spec));
      assert.equal((await holders()).length, 1);
      await backend().power("held", "stop");
      await backend().power("held", "start");
      await eventually("one is left", async () => (await holders()).length === 1);
      const session = await backend().caps.attach!("held");
      await session.stdin!.close();
      assert.equal(await session.exit, 0);
      await Promise.all([session.stdout.cancel(), session.stderr.cancel()]);
      await eventually("none is left", async () => (await holders()).length === 0);
      await backend().power("held", "start");
      await backend().delete("held");
      await eventually("none is left", async () => (await holders()).length === 0);
      // Without `stdinOpen` the input is empty, and nothing holds it.
      await backend().apply(quickSpec("held", image, { ...spec, stdinOpen: false }));
      await eventually(
        "its end",
        async () => (await backend().status("held"))!.instances[0].exitCode === 0,
      );
      assert.deepEqual(await holders(), []);
    } finally {
      await backend().delete("held");
    }
  });

  test("a paused replica gets no new connections while another one runs", async () => {
    const script = "hostname > /srv/index.html; exec httpd -f -p 8080 -h /srv";
    const command = ["sh", "-c", script];
    const healthcheck = { test: "wget -qO- http://127.0.0.1:8080", interval: "100ms" };
    try {
      await backend().apply(quickSpec("halved", image, { command, replicas: 2, healthcheck }));
      const ask = async () => {
        const connection = await backend().dial("halved", 8080, "tcp");
        try {
          await connection.write(new TextEncoder().encode("GET / HTTP/1.0\r\n\r\n"));
          let answer = "";
          const decoder = new TextDecoder();
          for (let bytes = await connection.read(); bytes; bytes = await connection.read()) {
            answer += decoder.decode(bytes);
          }
          return answer.trim().split("\n").at(-1);
        } finally {
          connection.reset();
        }
      };
      const several = async () => new Set(await Promise.all([ask(), ask(), ask(), ask()]));
      assert.deepEqual(await several(), new Set(["halved-0", "halved-1"]));
      await backend().caps.pause!.pause("halved", { instance: "0" });
      assert.deepEqual(await several(), new Set(["halved-1"]));
      await backend().caps.pause!.unpause("halved");
      assert.deepEqual(await several(), new Set(["halved-0", "halved-1"]));
    } finally {
      await backend().delete("halved");
    }
  });

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

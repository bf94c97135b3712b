/** What the containerd backend does beyond the contract: with its daemon, and while no server runs. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { exists } from "../../lib/base/fs.ts";
import { run } from "../../lib/base/process.ts";
import { orMissing } from "../../lib/containerd/writing.ts";
import { RUNNING, Workloads, WorkloadTasks } from "../../lib/containerd/workload_api.ts";
import { PRIVILEGED_KINDS } from "../../lib/deploy/privileges.ts";
import type { DeploymentRecord } from "../../lib/deploy/host/record.ts";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";
import type { ContainerdFixture } from "./containerd_fixture.ts";
import { LOG_LIMIT } from "./containerd_fixture.ts";
import type { OwnTest } from "./deploy_suite.ts";
import { execute, lines, quickSpec, runs, shell, tell } from "./deploy_tools.ts";
import type { HostUnderTest } from "./host_backend.ts";

const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name);

export function containerdDetails(test: OwnTest, under: HostUnderTest & ContainerdFixture): void {
  const { backend, image, dataDir, allowed, daemon, folder, client } = under;
  const own = (...parts: string[]) => join(dataDir, "containerd", ...parts);
  const withNames = (title: string, deployments: string[], fn: () => Promise<void>) =>
    test(title, async () => {
      try {
        await fn();
      } finally {
        for (const name of deployments) await backend().delete(name);
      }
    });
  const recordOf = async (name: string): Promise<DeploymentRecord> =>
    JSON.parse(await Deno.readTextFile(own("deployments", `${name}.json`)));
  const keyOf = async (name: string) => (await recordOf(name)).instances[0].key;
  /** The pid of what runs of a container, as containerd knows it. */
  const running = async (key: string) => {
    const call = client.call(WorkloadTasks.get, { containerId: key }, "Cannot look");
    const process = (await orMissing(call))?.process;
    return process?.status === RUNNING ? process.pid : undefined;
  };
  const ctr = async (...args: string[]) => {
    const { code, stdout, stderr } = await run("ctr", [
      ...["-a", daemon.address, "-n", "svc"],
      ...args,
    ]);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const answers = (name: string) =>
    eventually(`${name} answers`, async () => {
      const stream = await backend().dial(name, 8080, "tcp").catch(() => undefined);
      stream?.reset();
      return stream !== undefined;
    });

  withNames("ctr shows its containers and their labels", ["shown"], async () => {
    const spec = quickSpec("shown", image, {
      labels: {
        team: "shop",
        "containerd.io/restart.loguri": "binary:///bin/false",
        "containerd.io/restart.status": "running",
      },
      restart: "no",
    });
    await assert.rejects(backend().apply(spec), { code: "denied" });
    try {
      await under.reopen(undefined, PRIVILEGED_KINDS);
      await backend().apply(spec);
      const key = await keyOf("shown");
      const filter = "labels.team==shop";
      assert.match(await ctr("containers", "ls", filter), new RegExp(`^${key} +base`, "m"));
      const { container } = await client.call(Workloads.get, { id: key }, "Cannot look");
      const { labels = {} } = container;
      assert.equal(labels["svc.deployment"], "shown");
      // Its restart monitor would run that program as root.
      assert.ok(!Object.keys(labels).some((name) => name.startsWith("containerd.io/")));
      assert.match(await ctr("tasks", "ls"), new RegExp(`^${key} +\\d+ +RUNNING`, "m"));
    } finally {
      await under.reopen();
    }
  });

  withNames(
    "without a server: it logs, is started again, and a stop stays a stop",
    ["goes-on", "stopped", "frozen"],
    async () => {
      await Deno.writeTextFile(join(allowed, "bound"), "bound\n");
      const command = shell("cat /mnt/bound; echo begun; while :; do sleep 0.1; done");
      const spec = { command, mounts: [`${allowed}:/mnt:ro`], restart: "always" };
      await backend().apply(quickSpec("goes-on", image, spec));
      await backend().apply(quickSpec("stopped", image, spec));
      await backend().power("stopped", "stop");
      await backend().apply(quickSpec("frozen", image, spec));
      await backend().caps.pause!.pause("frozen");
      const [key, stopped, frozen] = await Promise.all(
        ["goes-on", "stopped", "frozen"].map(keyOf),
      );
      const [{ pid }] = (await backend().status("goes-on"))!.instances;
      const frozenPid = (await backend().status("frozen"))!.instances[0].pid!;
      let again: number | undefined;
      await under.reopen(async () => {
        Deno.kill(pid!, "SIGKILL");
        await eventually("started again", async () => {
          again = await running(key);
          return again !== undefined && again !== pid;
        });
        assert.equal(await running(stopped), undefined);
        assert.ok(await exists(`/proc/${frozenPid}`), "what is paused was left alone");
        assert.equal(await running(frozen), undefined);
      });
      const status = (await backend().status("goes-on"))!;
      assert.deepEqual([status.state, status.instances[0].pid], ["running", again]);
      await eventually(
        "its output",
        async () => (await lines(backend(), "goes-on")).join() === "bound,begun,bound,begun",
      );
      assert.equal((await backend().status("stopped"))!.state, "stopped");
      await backend().caps.pause!.unpause("frozen");
      assert.equal((await backend().status("frozen"))!.instances[0].pid, frozenPid);
    },
  );

  withNames(
    "while a server lives, its delays and counts hold: containerd starts nothing",
    ["counted"],
    async () => {
      // It ends again and again once it was told so, which its own files say.
      const command = shell("until [ -e /tmp/end ]; do sleep 0.05; done; echo over; exit 3");
      await backend().apply(quickSpec("counted", image, { command, restart: "always" }));
      await tell(backend(), "counted", "end");
      const restarts = async () => (await backend().status("counted"))!.instances[0].restarts;
      // Delays longer than the rounds of containerd's monitor are among them.
      await eventually("six restarts", async () => await restarts() >= 6);
      await backend().power("counted", "stop");
      const printed = await lines(backend(), "counted");
      assert.ok(printed.every((line) => line === "over"), printed.join());
      const most = await restarts() + 1;
      assert.ok(printed.length <= most, `${printed.length} runs, ${most} starts`);
    },
  );

  withNames(
    "containerd is killed: what runs goes on, deploys say what is missing, and work as soon as it is there",
    ["lives", "late"],
    async () => {
      await backend().apply(quickSpec("lives", image));
      await answers("lives");
      const before = await runs(backend(), "lives");
      await daemon.kill9();
      await answers("lives");
      const seen = await execute(backend(), "lives", { command: ["echo", "here"] });
      assert.equal(seen.stdout, "here\n");
      await assert.rejects(backend().apply(quickSpec("late", image)), {
        code: "prerequisite_missing",
        message: /Cannot use containerd at .*containerd\.sock/,
      });
      // A server that starts now takes over what runs.
      await under.reopen();
      assert.deepEqual(await runs(backend(), "lives"), before);
      await daemon.start();
      await backend().apply(quickSpec("late", image));
      const [{ pid }] = (await backend().status("lives"))!.instances;
      Deno.kill(pid!, "SIGKILL");
      await eventually("a restart", async () => {
        const [instance] = (await backend().status("lives"))!.instances;
        return instance.restarts === 1 && instance.state === "running";
      });
    },
  );

  withNames(
    "after a reboot of the host it is brought up again, on its port",
    ["boot"],
    async () => {
      const port = freePort();
      await backend().apply(quickSpec("boot", image, { ports: [`127.0.0.1:${port}:8080`] }));
      const { key, endpoint } = (await recordOf("boot")).instances[0];
      const netns = endpoint ? own("spares", endpoint) : own("netns", key);
      await under.reopen(async () => {
        // What a reboot takes: processes, mounts, namespaces, and all of /run.
        await daemon.reboot();
        for (const path of [netns, own("instances", key, "rootfs")]) {
          assert.equal((await run("umount", ["--lazy", path])).code, 0);
        }
        await Deno.remove(join(dataDir, "run"), { recursive: true });
        await daemon.start();
      });
      await eventually(
        "running",
        async () => (await backend().status("boot"))?.state === "running",
      );
      await eventually("an answer", async () => {
        const response = await fetch(`http://127.0.0.1:${port}/`, {
          headers: { connection: "close" },
          signal: AbortSignal.timeout(30_000),
        }).catch(() => undefined);
        return (await response?.text())?.trim() === "hello from busybox";
      });
    },
  );

  withNames(
    "its log stays within bounds, and ends with what it printed last",
    ["chatty"],
    async () => {
      const count = 300_000;
      const script = `seq ${count}; printf 'no end of line'; exit 0`;
      await backend().apply(quickSpec("chatty", image, { command: shell(script), restart: "no" }));
      await eventually(
        "its end",
        async () => (await backend().status("chatty"))!.state !== "running",
      );
      const key = await keyOf("chatty");
      for (const file of [`${key}.log`, `${key}.log.1`]) {
        const { size } = await Deno.stat(own("logs", file));
        assert.ok(size > 0 && size <= LOG_LIMIT + 65536 * 40, `${file}: ${size}`);
      }
      const last = await lines(backend(), "chatty", { tail: 3 });
      assert.deepEqual(last, [String(count - 1), String(count), "no end of line"]);
    },
  );

  withNames("two servers share a namespace of containerd", ["shared"], async () => {
    await backend().apply(
      quickSpec("shared", image, { command: shell("echo first; exec sleep 1000") }),
    );
    {
      await using other = await under.other();
      const spec = quickSpec("shared", image, { command: shell("echo second; exec sleep 1000") });
      await other.backend.apply(spec);
      await eventually(
        "its log",
        async () => (await lines(other.backend, "shared")).join() === "second",
      );
      assert.equal((await other.backend.list()).length, 1);
      await other.backend.delete("shared");
    }
    await under.reopen();
    assert.deepEqual(await lines(backend(), "shared"), ["first"]);
    assert.equal((await backend().status("shared"))!.state, "running");
  });

  test("nothing is left: no container, task, mount or namespace", async () => {
    assert.deepEqual(await backend().list(), []);
    for (const place of ["netns", "instances", "logs", "exits", "deployments"]) {
      assert.deepEqual(await names(own(place)), [], place);
    }
    assert.equal(await ctr("containers", "ls", "-q"), "");
    assert.equal(await ctr("tasks", "ls", "-q"), "");
    const mounts = await Deno.readTextFile("/proc/self/mountinfo");
    for (
      const place of [
        own("instances"),
        own("netns"),
        join(folder, "state/io."),
        join(dataDir, "run"),
      ]
    ) {
      assert.ok(!mounts.includes(place), place);
    }
  });
}

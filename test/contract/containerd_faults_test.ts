/** Faults around the containerd backend, its daemon's among them. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { run } from "../../lib/base/process.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { requireTools } from "../e2e/harness.ts";
import { eventually } from "../waits.ts";
import { type ContainerdFixture, containerdFixture, openContainerd } from "./containerd_fixture.ts";
import { lines, quickSpec, shell } from "./deploy_tools.ts";
import { hostFaults } from "./host_faults.ts";

async function daemonFaults(
  t: Deno.TestContext,
  backend: DeployBackend,
  { daemon, folder, image, dataDir }: ContainerdFixture,
): Promise<void> {
  const ctr = async (...args: string[]) => {
    const { code, stdout, stderr } = await run("ctr", ["-a", daemon.address, "-n", "svc", ...args]);
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const running = async (name: string) => (await backend.status(name))?.state === "running";

  await t.step(
    "the daemon is killed while it is at work: each apply is whole or nothing",
    async () => {
      const crowd = Array.from({ length: 8 }, (_, i) => `torn-${i}`);
      const begun = Promise.withResolvers<void>();
      const applied = crowd.map((name) =>
        backend.apply(quickSpec(name, image), {}, { onProgress: () => begun.resolve() })
      );
      await begun.promise;
      await Promise.race(applied.map((one) => one.catch(() => {})));
      await daemon.kill9();
      await daemon.start();
      const results = await Promise.allSettled(applied);
      const whole = crowd.filter((_, i) => results[i].status === "fulfilled");
      for (const name of whole) await eventually(`${name} runs`, () => running(name));
      // What could not be removed while the daemon was away goes once it is back.
      await eventually("nothing half-made", async () => {
        const containers = (await ctr("containers", "ls", "-q")).split("\n").filter(Boolean);
        return containers.length === whole.length;
      });
      for (const name of crowd) {
        await backend.apply(quickSpec(name, image));
        await backend.delete(name);
      }
      assert.equal(await ctr("containers", "ls", "-q"), "");
      assert.equal(await ctr("tasks", "ls", "-q"), "");
    },
  );

  await t.step("its image is removed by others: what runs goes on, and restarts", async () => {
    await backend.apply(quickSpec("kept", image, { restart: "always" }));
    for (const name of (await ctr("images", "ls", "-q")).split("\n").filter(Boolean)) {
      await ctr("images", "rm", "--sync", name);
    }
    await backend.power("kept", "restart");
    assert.ok(await running("kept"));
    await backend.delete("kept");
  });

  await t.step("a full disk: the log is cut, and the workload goes on", async () => {
    const logs = join(dataDir, "containerd/logs");
    const options = ["-t", "tmpfs", "-o", "size=64k", "tmpfs", logs];
    assert.equal((await run("mount", options)).code, 0);
    try {
      const script = "seq 100000; echo over >/tmp/over; exec sleep 1000";
      await backend.apply(quickSpec("chatty", image, { command: shell(script) }));
      await eventually("it goes on", async () => {
        const files = backend.caps.files!;
        return await files.stat("chatty", "/tmp/over") !== undefined;
      });
      assert.ok((await lines(backend, "chatty", { tail: 1 })).length <= 1);
      await backend.delete("chatty");
    } finally {
      assert.equal((await run("umount", ["--lazy", logs])).code, 0);
    }
  });

  await t.step("images that no deployment uses are collected; those in use stay", async () => {
    const snapshots = async () => (await ctr("snapshots", "ls")).split("\n").length - 1;
    await backend.apply(quickSpec("used", image));
    const before = await snapshots();
    assert.equal((await backend.caps.pruneImages!()).items, 0, "it is in use");
    assert.equal(await snapshots(), before);
    await backend.delete("used");
    const dry = await backend.caps.pruneImages!({ dryRun: true });
    assert.ok(dry.items > 0 && dry.bytes > 0);
    assert.deepEqual(await backend.caps.pruneImages!(), dry);
    assert.equal(await snapshots(), 0);
    await backend.apply(quickSpec("used", image));
    await backend.delete("used");
  });

  await t.step(
    "a full disk of containerd's own: refused by name, and nothing half-made",
    async () => {
      const root = join(folder, "root");
      await daemon.stop();
      assert.equal((await run("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", root])).code, 0);
      try {
        await daemon.start();
        await ctr("namespaces", "ls");
        const filler = join(root, "filler");
        assert.notEqual((await run("dd", ["if=/dev/zero", `of=${filler}`, "bs=64k"])).code, 0);
        await Deno.truncate(filler, (await Deno.stat(filler)).size - 256 * 1024);
        await assert.rejects(backend.apply(quickSpec("large", image)), {
          code: "storage_full",
          message: /^Cannot .*no space left/,
        });
        assert.equal(await backend.status("large"), undefined);
        assert.equal(await ctr("containers", "ls", "-q"), "");
        await Deno.remove(filler);
        await backend.apply(quickSpec("large", image));
        assert.ok(await running("large"));
        await backend.delete("large");
      } finally {
        await daemon.stop();
        await run("umount", ["--lazy", root]);
        await daemon.start();
      }
    },
  );
}

Deno.test({
  name: "containerd backend among faults",
  ...requireTools({
    root: true,
    commands: ["containerd", "ctr", "runc", "perl", "flock", "iptables", "busybox"],
  }),
  sanitizeOps: false,
  sanitizeResources: false,
  fn: async (t) => {
    await using fixture = await containerdFixture();
    await hostFaults(
      t,
      fixture,
      (settings) => openContainerd(fixture.place, settings),
      (t, backend) => daemonFaults(t, backend, fixture),
    );
  },
});

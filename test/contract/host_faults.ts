/** Faults around a host's engine: no address left, a plugin that fails half way, an image that goes, a crowd. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { cniDirs, CniPlugins } from "../../lib/runtime/cni.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { eventually } from "../waits.ts";
import { deployCrowd } from "./crowd.ts";
import type { DeployFixture } from "./deploy_suite.ts";
import { quickSpec } from "./deploy_tools.ts";
import type { Host } from "./host_fixture.ts";

/** What the backend under test is opened with. */
export interface FaultSettings {
  cniBinDir: string;
  startMs: number;
}

const names = async (folder: string) =>
  (await Array.fromAsync(Deno.readDir(folder)).catch(() => [])).map(({ name }) => name);

/** `more`: faults of the engine itself, with the backend. */
export async function hostFaults<F extends DeployFixture & Host>(
  t: Deno.TestContext,
  fixture: F,
  open: (settings: FaultSettings) => Promise<DeployBackend>,
  more: (t: Deno.TestContext, backend: DeployBackend) => Promise<void> = async () => {},
): Promise<void> {
  const { dataDir, engine, subnetBase, image } = fixture;
  const network = bridgeNetwork(subnetBase, 0);
  const leases = join(dataDir, "run/leases", network.name);
  const addresses = async () => (await names(leases)).filter((name) => /^\d/.test(name));
  /** What is left of containers; the address of the one that is made ahead does not count. */
  const left = async () => ({
    instances: await names(join(dataDir, engine, "instances")),
    records: await names(join(dataDir, engine, "deployments")),
    namespaces: await names(join(dataDir, engine, "netns")),
  });
  const NOTHING = { instances: [], records: [], namespaces: [] };
  const plugins = join(dataDir, "plugins");
  const failing = join(dataDir, "failing");
  await Deno.mkdir(plugins);
  const installed = new CniPlugins(cniDirs());
  for (const name of ["bridge", "host-local", "loopback"]) {
    const path = await installed.find(name);
    // The bridge's does all its work, and fails then.
    const half = `#!/bin/sh
if [ -e ${failing} ] && [ "$CNI_COMMAND" = ADD ]; then
  ${path} >/dev/null && echo '{"code": 100, "msg": "the half of it"}'; exit 1
fi
exec ${path}
`;
    if (name === "bridge") await Deno.writeTextFile(join(plugins, name), half, { mode: 0o755 });
    else await Deno.symlink(path, join(plugins, name));
  }
  const backend: DeployBackend = await open({ cniBinDir: plugins, startMs: 60_000 });
  try {
    await t.step("a plugin that fails half way leaves nothing", async () => {
      await Deno.writeTextFile(failing, "");
      await assert.rejects(backend.apply(quickSpec("half", image)), {
        message: /the half of it/,
      });
      assert.deepEqual(await left(), NOTHING);
      assert.deepEqual(await addresses(), []);
      assert.deepEqual(await names(`/sys/class/net/${network.bridge}/brif`), []);
      await Deno.remove(failing);
      await backend.apply(quickSpec("half", image));
      assert.equal(await backend.delete("half"), true);
    });

    await t.step("a full subnet is told; the next one has an address again", async () => {
      const taken = Array.from({ length: 253 }, (_, i) => `${subnetBase}.0.${i + 2}`);
      const free = new Set(await addresses());
      for (const address of taken.filter((one) => !free.has(one))) {
        // One may be taken meanwhile, to have it ahead.
        await Deno.writeTextFile(join(leases, address), "somebody\r\neth0", { createNew: true })
          .catch(() => {});
      }
      // One may have been made ahead; a second one finds none.
      const both = quickSpec("full", image, { replicas: 2 });
      await assert.rejects(backend.apply(both), {
        code: "conflict",
        message: new RegExp(`all addresses of ${subnetBase}\\.0\\.0/24 are in use`),
      });
      assert.deepEqual(await left(), NOTHING);
      for (const address of taken) {
        const text = await Deno.readTextFile(join(leases, address)).catch(() => "");
        if (text.startsWith("somebody")) await Deno.remove(join(leases, address));
      }
      await backend.apply(both);
      assert.equal(await backend.delete("full"), true);
    });

    await t.step("an image that is removed takes nothing from who runs it", async () => {
      await backend.apply(quickSpec("kept", image));
      const layout = join(dataDir, "layout");
      await Deno.rename(layout, `${layout}.away`);
      try {
        await backend.power("kept", "restart");
        const { instances: [{ pid }] } = (await backend.status("kept"))!;
        Deno.kill(pid!, "SIGKILL");
        await eventually("back", async () => {
          const { instances: [one] } = (await backend.status("kept"))!;
          return one.pid !== undefined && one.pid !== pid;
        });
        await assert.rejects(backend.apply(quickSpec("kept", image, { env: { NEW: "1" } })));
        assert.equal((await backend.status("kept"))!.state, "running", "it goes on");
      } finally {
        await Deno.rename(`${layout}.away`, layout);
      }
      assert.equal(await backend.delete("kept"), true);
    });

    const crowd: [string, () => Promise<void>][] = [];
    const made = async () => ({ containers: (await left()).instances });
    deployCrowd((title, fn) => crowd.push([title, fn]), { backend: () => backend, image }, made);
    for (const [title, fn] of crowd) await t.step(title, fn);
    assert.deepEqual(await left(), NOTHING);
    await more(t, backend);
  } finally {
    await backend[Symbol.asyncDispose]();
  }
  assert.deepEqual(await addresses(), [], "all addresses come back");
}

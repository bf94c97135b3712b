import assert from "node:assert/strict";
import { silent } from "../base/log.ts";
import { pluginsEnded } from "../runtime/plugin_runs.ts";
import { BridgeNetworks } from "./bridge_networks.ts";

Deno.test({
  name: "networks of steps: a plugin that a killed server has left at work is waited for",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const root = await Deno.makeTempDir({ prefix: "svc-step-networks-" });
    const folder = `${root}/netns`;
    const plugin = new Deno.Command("sh", {
      args: ["-c", "echo begun; read end"],
      env: { CNI_NETNS: `${folder}/one` },
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const networks = new BridgeNetworks({
      ...{ cniBinDir: `${root}/no-plugins`, cniSubnetBase: "10.89", leases: `${root}/leases` },
      ...{ folder, log: silent },
    });
    try {
      for await (const _ of plugin.stdout) break;
      let over = false;
      const recovered = networks.recover().finally(() => over = true);
      // All processes have been looked at once by then.
      await pluginsEnded([folder], silent, 0);
      assert.equal(over, false);
      await plugin.stdin.close();
      await recovered;
    } finally {
      await plugin.stdin.close().catch(() => {/* it is closed */});
      await plugin.status;
      await networks[Symbol.asyncDispose]();
      await Deno.remove(root, { recursive: true });
    }
  },
});

/**
 * Servers of this host whose data is gone: nobody else takes their published ports and networks away. Each server
 * leaves a note below the run folder, which a reboot empties as it does the firewall. What a server that has only
 * ended left stays: its workloads run on.
 */
import { join } from "node:path";
import { ensureDir, exists, readJson, writeFileAtomic } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import type { BridgeNetwork } from "../../runtime/bridge_network.ts";
import { bridgeNetwork, isBridgeOf } from "../../runtime/network.ts";
import { PortRules } from "../../runtime/port_rules.ts";
import { markedBridges } from "../../runtime/rule_tables.ts";
import { ownSubnet6 } from "../../runtime/subnets6.ts";
import type { HostPaths } from "./paths.ts";

interface Note {
  /** Of its published ports. */
  chain: string;
  dataDir: string;
  /** SVC_CNI_SUBNET_BASE. */
  base: string;
}

export interface GoneOptions {
  paths: Pick<HostPaths, "servers" | "dataDir" | "portChain">;
  base: string;
  /** Removes a bridge on which nobody is, with its rules. */
  removeNetwork: (network: BridgeNetwork) => Promise<void>;
  log: Logger;
  /** What there is on this host; tests give another answer. */
  host?: {
    bridges: () => Promise<string[]>;
    removePorts: (chain: string) => Promise<void>;
  };
}

const HOST = {
  /** Names of all bridges that there are or that have rules. */
  async bridges(): Promise<string[]> {
    const links = await Array.fromAsync(Deno.readDir("/sys/class/net"));
    return [...new Set([...links.map(({ name }) => name), ...await markedBridges()])];
  },
  removePorts: (chain: string) => new PortRules(chain).set([]),
};

/** Writes this server's note, and removes what servers have left whose data folder is gone. A failure is logged. */
export async function sweepGoneServers(options: GoneOptions): Promise<void> {
  await sweep(options).catch((error) =>
    options.log.warn("what servers have left whose data is gone was not removed", { error })
  );
}

async function sweep(options: GoneOptions): Promise<void> {
  const { paths: { servers, dataDir, portChain }, base, removeNetwork, host = HOST } = options;
  await ensureDir(servers, 0o700);
  const own: Note = { chain: portChain, dataDir, base };
  await writeFileAtomic(join(servers, `${portChain}.json`), JSON.stringify(own));
  const gone: { path: string; note: Note }[] = [];
  const bases = new Set<string>();
  for await (const { name } of Deno.readDir(servers)) {
    const path = join(servers, name);
    const note = await readJson<Note>(path).catch(() => undefined);
    if (!note?.chain || name !== `${note.chain}.json`) continue;
    if (await exists(note.dataDir)) bases.add(note.base);
    else gone.push({ path, note });
  }
  for (const { path, note } of gone) {
    await host.removePorts(note.chain);
    // Servers with one base share bridges.
    if (!bases.has(note.base)) {
      for (const bridge of await host.bridges()) {
        if (!isBridgeOf(note.base, bridge)) continue;
        const index = Number(/\d+$/.exec(bridge)![0]);
        // Whether it had IPv6 nobody knows any more.
        const subnet6 = ownSubnet6(note.base, index);
        await removeNetwork({ ...bridgeNetwork(note.base, index), subnet6 });
      }
    }
    await Deno.remove(path).catch(() => {/* another server was faster */});
  }
}

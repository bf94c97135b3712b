/** Attaches instances to their networks: one namespace each, connected to its bridges. */
import { join } from "node:path";
import { ensureDir } from "../../base/fs.ts";
import { makeEndpoint } from "../../runtime/endpoints.ts";
import { hasNetns, removeNetns } from "../../runtime/netns.ts";
import type { BridgeDriver } from "../../runtime/network.ts";
import type { HostPaths } from "./paths.ts";
import type { InstanceRecord, NetworkAttachment } from "./record.ts";

/** The parts of a record that name an instance's namespace and its networks. */
export type AttachedInstance = Pick<InstanceRecord, "key" | "endpoint" | "choice">;

export class Attachments {
  #bridges: BridgeDriver;
  #folders: Pick<HostPaths, "netns" | "spares">;

  constructor(bridges: BridgeDriver, folders: Pick<HostPaths, "netns" | "spares">) {
    this.#bridges = bridges;
    this.#folders = folders;
  }

  /** The namespace's file. */
  path({ endpoint, key }: AttachedInstance): string {
    return endpoint ? join(this.#folders.spares, endpoint) : join(this.#folders.netns, key);
  }

  #endpoint(instance: AttachedInstance, ifname: string) {
    const containerId = instance.endpoint ?? instance.key;
    return { containerId, netns: this.path(instance), ifname };
  }

  /** Makes a new namespace with the chosen networks; `ready` is called once the namespace exists. */
  async make(
    instance: AttachedInstance,
    ready: () => void,
    signal?: AbortSignal,
  ): Promise<NetworkAttachment[]> {
    const { choice } = instance;
    if (choice.kind !== "bridges") {
      ready();
      return [];
    }
    await ensureDir(this.#folders.netns, 0o700);
    const networks = choice.networks.map(({ network }) => network);
    const place = this.#endpoint(instance, "");
    const addresses = choice.networks.map(({ ip, ip6, mac }) => ({ ip, ip6, mac }));
    const made = await makeEndpoint(this.#bridges, place, networks, { ready, addresses, signal });
    return made.map((attached, index) => ({
      ...attached,
      aliases: choice.networks[index].aliases,
    }));
  }

  /** Brings the host's rules up to date for prepared attachments: the rules may have changed since. */
  async admit(
    networks: readonly NetworkAttachment[],
    signal?: AbortSignal,
  ): Promise<void> {
    for (const { network } of networks) await this.#bridges.admit(network, signal);
  }

  /** Removes rules, addresses and namespace. Idempotent, also for half-made ones. */
  async remove(
    instance: AttachedInstance,
    networks: readonly NetworkAttachment[],
  ): Promise<void> {
    const path = this.path(instance);
    // After a reboot only the namespace's file is left, which plugins refuse. Without the file they remove what
    // they can.
    if (!await hasNetns(path)) await removeNetns(path);
    const planned = instance.choice.kind === "bridges" ? instance.choice.networks : [];
    for (const [place, { network }] of planned.entries()) {
      const ifname = `eth${place}`;
      const { result = {} } = networks.find((made) => made.ifname === ifname) ?? {};
      await this.#bridges.detach(network, this.#endpoint(instance, ifname), result);
    }
    await removeNetns(path);
  }

  /** True where the instance's namespace exists: after a reboot it does not. */
  exists(instance: AttachedInstance): Promise<boolean> {
    return instance.choice.kind === "bridges"
      ? hasNetns(this.path(instance))
      : Promise.resolve(true);
  }
}

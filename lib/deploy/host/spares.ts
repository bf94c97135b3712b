/**
 * A prepared network namespace: attached to its bridge after one deploy and taken by the next, which then waits
 * for no plugin. There is at most one. Namespaces that no record names are removed at the next start.
 */
import { join } from "node:path";
import { ensureDir, namesIn } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { Mutex } from "../../base/mutex.ts";
import type { BridgeNetwork } from "../../runtime/bridge_network.ts";
import { makeEndpoint, removeEndpoint } from "../../runtime/endpoints.ts";
import { hasNetns } from "../../runtime/netns.ts";
import { type BridgeDriver, bridgeNetwork } from "../../runtime/network.ts";
import type { InstanceRecord, NetworkAttachment, NetworkChoice } from "./record.ts";

/** Milliseconds between the last deploy and the preparation for the next. */
const DELAY = 300;

export interface SparesOptions {
  bridges: BridgeDriver;
  /** Of the namespaces' files. */
  folder: string;
  /** SVC_CNI_SUBNET_BASE. */
  subnetBase: string;
  log: Logger;
}

interface Spare {
  name: string;
  attachment: NetworkAttachment;
}

const sameNetwork = (a: BridgeNetwork, b: BridgeNetwork) =>
  a.bridge === b.bridge && a.subnet === b.subnet && a.subnet6 === b.subnet6 &&
  a.internal === b.internal && a.mtu === b.mtu;

/** Of a namespace in the folder of spares: "spare-<index of the network>-<random>": the name tells what to remove, without a record. */
export function nameFor(network: BridgeNetwork): string {
  return `spare-${network.subnet.split(".")[2]}-${crypto.randomUUID().slice(0, 6)}`;
}

export class Spares {
  #options: SparesOptions;
  #lock = new Mutex();
  #spare: Spare | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The network that the timer will prepare for. */
  #wanted: BridgeNetwork | undefined;
  #stopped = false;

  constructor(options: SparesOptions) {
    this.#options = options;
  }

  /** The record fields of a prepared attachment. Undefined: none fits. */
  take(choice: NetworkChoice): Promise<Partial<InstanceRecord> | undefined> {
    // The lock waits for a spare that is being made: that is faster than making another.
    return this.#lock.run(async () => {
      const spare = this.#spare;
      if (!spare || choice.kind !== "bridges" || choice.networks.length !== 1) return undefined;
      const [{ network, aliases, ip, ip6, mac }] = choice.networks;
      if (ip || ip6 || mac || !sameNetwork(spare.attachment.network, network)) return undefined;
      this.#spare = undefined;
      const { name, attachment } = spare;
      const whole = await hasNetns(this.#path(name)) &&
        this.#options.bridges.isAttached(network, attachment.result);
      if (whole) return { endpoint: name, networks: [{ ...attachment, aliases }] };
      await this.#remove(name, network);
      return undefined;
    });
  }

  /** Prepares for another deploy like the last one, but not while deploys follow each other. */
  prepare(choice: NetworkChoice): void {
    if (choice.kind !== "bridges" || choice.networks.length !== 1 || this.#stopped) return;
    clearTimeout(this.#timer);
    const [{ network }] = choice.networks;
    // Nobody but the deployment's own instances is on such a network.
    if (network.walled) return;
    this.#wanted = network;
    this.#timer = setTimeout(() => {
      this.#lock.run(() => this.#fill(network)).catch((error) =>
        this.#options.log.debug("no spare network namespace was prepared", { error })
      );
    }, DELAY);
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  async #fill(network: BridgeNetwork): Promise<void> {
    // Released or stopped meanwhile.
    if (this.#stopped || this.#wanted !== network) return;
    if (this.#spare && sameNetwork(this.#spare.attachment.network, network)) {
      return;
    }
    await this.#drop();
    await ensureDir(this.#options.folder, 0o700);
    const name = nameFor(network);
    try {
      const place = { containerId: name, netns: this.#path(name) };
      const [attached] = await makeEndpoint(this.#options.bridges, place, [network]);
      this.#spare = { name, attachment: { ...attached, aliases: [] } };
    } catch (error) {
      await this.#remove(name, network);
      throw error;
    }
  }

  #path(name: string): string {
    return join(this.#options.folder, name);
  }

  async #drop(): Promise<void> {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare) await this.#remove(spare.name, spare.attachment.network);
  }

  /** Removes a spare, whole or half made. A failure is logged and tried again at the next start. */
  async #remove(name: string, network: BridgeNetwork): Promise<void> {
    try {
      const place = { containerId: name, netns: this.#path(name) };
      await removeEndpoint(this.#options.bridges, place, network);
    } catch (error) {
      this.#options.log.warn("a spare network namespace was not removed", { name, error });
    }
  }

  /** After a start: removes spares of an earlier server that no instance took. */
  async sweep(used: ReadonlySet<string>): Promise<void> {
    const { folder, subnetBase } = this.#options;
    for (const name of await namesIn(folder)) {
      const place = /^spare-(\d+)-/.exec(name)?.[1];
      if (place === undefined || used.has(name)) continue;
      await this.#remove(name, bridgeNetwork(subnetBase, Number(place)));
    }
  }

  /** Removes the spare on a network that is about to be removed. */
  release(network: BridgeNetwork): Promise<void> {
    return this.#lock.run(async () => {
      if (this.#wanted?.bridge === network.bridge) this.#wanted = undefined;
      if (this.#spare?.attachment.network.bridge === network.bridge) await this.#drop();
    });
  }

  /** Makes no more spares, and removes the existing one. */
  stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    return this.#lock.run(() => this.#drop());
  }
}

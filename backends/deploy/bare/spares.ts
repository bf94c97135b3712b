/**
 * A network namespace made ahead: attached to its bridge after one deploy, taken by the next, which then
 * waits for no plugin. There is at most one. Those that no record names are removed at the next start.
 */
import { join } from "node:path";
import { ensureDir } from "../../../lib/base/fs.ts";
import { Mutex } from "../../../lib/base/mutex.ts";
import { makeEndpoint, removeEndpoint } from "../../../lib/runtime/endpoints.ts";
import { hasNetns } from "../../../lib/runtime/netns.ts";
import { type BridgeNetwork, bridgeNetwork } from "../../../lib/runtime/network.ts";
import type { Host } from "./host.ts";
import type { InstanceRecord, NetworkAttachment, NetworkChoice } from "./record.ts";

/** How long after the last deploy the next one is prepared for, in milliseconds. */
const DELAY = 300;

type SparesHost = Omit<Host, "spares">;

interface Spare {
  name: string;
  attachment: NetworkAttachment;
}

const sameNetwork = (a: BridgeNetwork, b: BridgeNetwork) =>
  a.bridge === b.bridge && a.subnet === b.subnet && a.internal === b.internal && a.mtu === b.mtu;

/** "spare-<place of the network>-<random>": tells what is to be taken away, without a record. */
function nameFor(network: BridgeNetwork): string {
  return `spare-${network.subnet.split(".")[2]}-${crypto.randomUUID().slice(0, 6)}`;
}

export class Spares {
  #host: SparesHost;
  #lock = new Mutex();
  #spare: Spare | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The network that the timer is for. */
  #wanted: BridgeNetwork | undefined;
  #stopped = false;

  constructor(host: SparesHost) {
    this.#host = host;
  }

  /** What a new instance's record is to hold: its attachment is made already. Undefined: none fits. */
  take(choice: NetworkChoice): Promise<Partial<InstanceRecord> | undefined> {
    // One that is being made is waited for: sooner than to begin with another.
    return this.#lock.run(async () => {
      const spare = this.#spare;
      if (!spare || choice.kind !== "bridges" || choice.networks.length !== 1) return undefined;
      const [{ network, aliases }] = choice.networks;
      if (!sameNetwork(spare.attachment.network, network)) return undefined;
      this.#spare = undefined;
      const { name, attachment } = spare;
      const whole = await hasNetns(this.#path(name)) &&
        await this.#host.bridges.isAttached(network, attachment.result);
      if (whole) return { endpoint: name, networks: [{ ...attachment, aliases }] };
      await this.#remove(name, network);
      return undefined;
    });
  }

  /** Prepares for another deploy like the one that was just made; not while deploys follow each other. */
  prepare(choice: NetworkChoice): void {
    if (choice.kind !== "bridges" || choice.networks.length !== 1 || this.#stopped) return;
    clearTimeout(this.#timer);
    const [{ network }] = choice.networks;
    this.#wanted = network;
    this.#timer = setTimeout(() => {
      this.#lock.run(() => this.#fill(network)).catch((error) =>
        this.#host.log.debug("no network namespace was made ahead", { error })
      );
    }, DELAY);
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  async #fill(network: BridgeNetwork): Promise<void> {
    // Released or stopped since.
    if (this.#stopped || this.#wanted !== network) return;
    if (this.#spare && sameNetwork(this.#spare.attachment.network, network)) {
      return;
    }
    await this.#drop();
    await ensureDir(this.#host.paths.spares, 0o700);
    const name = nameFor(network);
    try {
      const place = { containerId: name, netns: this.#path(name) };
      const [attached] = await makeEndpoint(this.#host.bridges, place, [network]);
      this.#spare = { name, attachment: { ...attached, aliases: [] } };
    } catch (error) {
      await this.#remove(name, network);
      throw error;
    }
  }

  #path(name: string): string {
    return join(this.#host.paths.spares, name);
  }

  async #drop(): Promise<void> {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare) await this.#remove(spare.name, spare.attachment.network);
  }

  /** Whole or half made; what fails is logged, and tried again at the next start. */
  async #remove(name: string, network: BridgeNetwork): Promise<void> {
    try {
      const place = { containerId: name, netns: this.#path(name) };
      await removeEndpoint(this.#host.bridges, place, network);
    } catch (error) {
      this.#host.log.warn("a spare network namespace was not removed", { name, error });
    }
  }

  /** After a start: removes what an earlier server made and no instance took. */
  async sweep(used: ReadonlySet<string>): Promise<void> {
    const { paths, networks } = this.#host;
    let entries: Deno.DirEntry[];
    try {
      entries = await Array.fromAsync(Deno.readDir(paths.spares));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      throw error;
    }
    for (const { name } of entries) {
      const place = /^spare-(\d+)-/.exec(name)?.[1];
      if (place === undefined || used.has(name)) continue;
      await this.#remove(name, bridgeNetwork(networks.base, Number(place)));
    }
  }

  /** Removes the spare of a network that is about to go. */
  release(network: BridgeNetwork): Promise<void> {
    return this.#lock.run(async () => {
      if (this.#wanted?.bridge === network.bridge) this.#wanted = undefined;
      if (this.#spare?.attachment.network.bridge === network.bridge) await this.#drop();
    });
  }

  /** Nothing is made any more, and what was made is removed. */
  stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    return this.#lock.run(() => this.#drop());
  }
}

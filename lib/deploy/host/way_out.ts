/**
 * Connections that the server makes for workloads behind a wall: from a namespace of its own on the default
 * network, so that they reach what a workload there reaches, and neither the host's loopback nor other networks.
 */
import { join } from "node:path";
import { ensureDir } from "../../base/fs.ts";
import { Mutex } from "../../base/mutex.ts";
import { makeEndpoint, removeEndpoint } from "../../runtime/endpoints.ts";
import { hasNetns } from "../../runtime/netns.ts";
import { type BridgeDriver, bridgeNetwork } from "../../runtime/network.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { connectWithin } from "../../wire/socket_within.ts";
import { nameFor } from "./spares.ts";

export interface WayOutOptions {
  bridges: BridgeDriver;
  /** Of the namespaces' files; one that a killed server left is removed with its spares. */
  folder: string;
  /** SVC_CNI_SUBNET_BASE. */
  subnetBase: string;
}

export class WayOut {
  readonly #options: WayOutOptions;
  readonly #lock = new Mutex();
  /** The namespace's name, once it was needed. */
  #name: string | undefined;
  #stopped = false;

  constructor(options: WayOutOptions) {
    this.#options = options;
  }

  get #network() {
    return bridgeNetwork(this.#options.subnetBase, 0);
  }

  #place(name: string) {
    return { containerId: name, netns: join(this.#options.folder, name) };
  }

  async dial(address: string, port: number, signal: AbortSignal): Promise<Duplex> {
    return await connectWithin(await this.#open(signal), { address, port, signal });
  }

  /** The namespace's file. */
  #open(signal: AbortSignal): Promise<string> {
    return this.#lock.run(async () => {
      signal.throwIfAborted();
      if (this.#stopped) throw new DOMException("the server ends", "AbortError");
      const known = this.#name && this.#place(this.#name).netns;
      if (known && await hasNetns(known)) return known;
      await ensureDir(this.#options.folder, 0o700);
      const name = this.#name = nameFor(this.#network);
      try {
        await makeEndpoint(this.#options.bridges, this.#place(name), [this.#network]);
      } catch (error) {
        await this.#remove();
        throw error;
      }
      return this.#place(name).netns;
    });
  }

  async #remove(): Promise<void> {
    const name = this.#name;
    this.#name = undefined;
    if (name) await removeEndpoint(this.#options.bridges, this.#place(name), this.#network);
  }

  /** Connections that are open go on until they end; no more are made. */
  stop(): Promise<void> {
    this.#stopped = true;
    return this.#lock.run(() => this.#remove());
  }
}

/** Asks containerd for garbage collections, which free what was removed. */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { Leases } from "./api.ts";
import type { ContainerdClient } from "./client.ts";

export class GarbageCollection {
  readonly #client: ContainerdClient;
  readonly #log: Logger;
  #running: Promise<void> | undefined;
  #again = false;

  constructor(client: ContainerdClient, log: Logger) {
    this.#client = client;
    this.#log = log;
  }

  /** Starts a collection in the background. Requests during a collection share one further collection. */
  collect(): void {
    this.#again = true;
    this.#running ??= this.#run();
  }

  /** Resolves when no collection is running. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Removals in the same turn of the event loop share a collection.
    await Promise.resolve();
    while (this.#again) {
      this.#again = false;
      try {
        const id = `svc-collect-${crypto.randomUUID()}`;
        await this.#client.call(Leases.create, { id }, "Cannot make a lease");
        await this.#client.call(Leases.delete, { id, sync: true }, "Cannot collect garbage");
      } catch (error) {
        if (!(error instanceof SvcError)) throw error;
        // containerd's own next collection frees the space.
        this.#log.warn("containerd did not collect what was removed", { reason: error.message });
      }
    }
    this.#running = undefined;
  }
}

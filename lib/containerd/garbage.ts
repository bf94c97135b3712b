/** containerd frees what was removed at its next garbage collection: this asks for one. */
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

  /** Starts one in the background; those asked for meanwhile become one more. */
  collect(): void {
    this.#again = true;
    this.#running ??= this.#run();
  }

  /** Resolves when none is under way. */
  async settled(): Promise<void> {
    await this.#running;
  }

  async #run(): Promise<void> {
    // Removals of one turn share a collection.
    await Promise.resolve();
    while (this.#again) {
      this.#again = false;
      try {
        const id = `svc-collect-${crypto.randomUUID()}`;
        await this.#client.call(Leases.create, { id }, "Cannot make a lease");
        await this.#client.call(Leases.delete, { id, sync: true }, "Cannot collect garbage");
      } catch (error) {
        if (!(error instanceof SvcError)) throw error;
        // The space is freed by containerd's next collection instead.
        this.#log.warn("containerd did not collect what was removed", { reason: error.message });
      }
    }
    this.#running = undefined;
  }
}

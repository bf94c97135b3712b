/** Waits for what becomes of deployments. */
import type { DeploymentStatus, InstanceEvent } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import type { Client } from "../client/client.ts";
import { getDeployment } from "../client/deployments.ts";
import { readEvents } from "../client/workloads.ts";

/**
 * Milliseconds after which a status is read again without an event: an event may have been missed while the stream
 * was opened, or opened again after a broken connection.
 */
export const AGAIN_MS = 2000;

/** Milliseconds before a broken stream of events is opened again. */
const PAUSE_MS = 250;

/** Shows all events until the signal. Whoever waits for one reads states too: they tell whether the server is away. */
export async function followEvents(
  client: Client,
  signal: AbortSignal,
  see: (event: InstanceEvent) => void,
): Promise<void> {
  while (!signal.aborted) {
    const events = readEvents(client);
    const leave = () => void events.return(undefined);
    signal.addEventListener("abort", leave, { once: true });
    try {
      for await (const event of events) see(event);
    } catch {
      // It is opened again below.
    } finally {
      signal.removeEventListener("abort", leave);
    }
    await sleep(PAUSE_MS, signal).catch(() => {/* asked for above */});
  }
}

/** The events of all deployments, shared by all who wait. Disposing of it ends them. */
export class Watch implements Disposable {
  readonly #client: Client;
  readonly #over = new AbortController();
  readonly #waiting = new Map<string, Set<() => void>>();
  #reading?: Promise<void>;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Resolves with the next event of the deployment. */
  #next(name: string, signal: AbortSignal): Promise<void> {
    this.#reading ??= followEvents(this.#client, this.#over.signal, ({ deployment }) => {
      for (const wake of this.#waiting.get(deployment) ?? []) wake();
    });
    const { promise, resolve } = Promise.withResolvers<void>();
    const all = this.#waiting.get(name) ?? new Set();
    this.#waiting.set(name, all.add(resolve));
    return Promise.race([promise, sleep(AGAIN_MS, signal)]).finally(() => all.delete(resolve));
  }

  /**
   * Resolves with the first status of which `until` is true. A deployment that is gone: undefined is passed, and
   * returned where `until` accepts it. What `until` throws is thrown.
   */
  async wait(
    name: string,
    until: (status: DeploymentStatus | undefined) => boolean,
    signal: AbortSignal,
  ): Promise<DeploymentStatus | undefined> {
    for (;;) {
      signal.throwIfAborted();
      const event = this.#next(name, signal);
      event.catch(() => {/* thrown below */});
      const status = await getDeployment(this.#client, name).catch((error) => {
        if (error instanceof SvcError && error.code === "not_found") return undefined;
        throw error;
      });
      if (until(status)) return status;
      await event;
    }
  }

  [Symbol.dispose](): void {
    this.#over.abort();
  }
}

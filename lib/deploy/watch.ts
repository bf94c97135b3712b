/** Watches all changes of the deployments until the signal aborts. */
import type { Logger } from "../base/log.ts";
import { sleep } from "../base/sleep.ts";
import type { DeployBackend } from "./backend.ts";

/** Milliseconds until a lost engine is tried again. */
const PAUSE_MS = 1000;

export interface WatchOptions {
  backend: () => Promise<Pick<DeployBackend, "events">>;
  /**
   * Called with the deployment of each event. Called without one where any deployment may have changed: at the
   * beginning, and after missed events.
   */
  changed: (deployment?: string) => void;
  signal: AbortSignal;
  log: Logger;
}

/** Resolves when the signal aborts. A backend that is lost or cannot be opened is tried again. */
export async function watchDeployments(
  { backend, changed, signal, log }: WatchOptions,
): Promise<void> {
  let told = false;
  while (!signal.aborted) {
    try {
      const events = (await backend()).events(signal);
      changed();
      told = false;
      for await (const { deployment } of events) changed(deployment);
    } catch (error) {
      if (!told) {
        log.warn("changes of deployments are not seen until the engine is back", { error });
      }
      told = true;
    }
    await sleep(PAUSE_MS, signal).catch(() => {/* it ends */});
  }
}

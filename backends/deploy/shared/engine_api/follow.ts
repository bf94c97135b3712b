/** Follows the starts and ends of an engine's containers, for what has to come and go with them. */
import type { InstanceEvent } from "../../../../lib/api/deployment.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import type { EngineWatch } from "./watch.ts";

/** Milliseconds until events are listened to again, after the engine was lost. */
const PAUSE_MS = 1000;

/** Calls `take` for each start and each end of a container. Resolves when the backend closes. */
export async function followRuns(
  watch: EngineWatch,
  take: (event: InstanceEvent) => void,
): Promise<void> {
  const { closing } = watch;
  while (!closing.aborted) {
    try {
      for await (const event of watch.watch(closing)) {
        if (event.type === "started" || event.type === "died") take(event);
      }
    } catch {
      // The engine is lost: once it is back, everything is looked at again.
    }
    await sleep(PAUSE_MS, closing).catch(() => {/* the backend closes */});
  }
}

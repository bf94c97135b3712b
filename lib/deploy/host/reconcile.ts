/** After the server's start: compares the records with the running containers. */
import type { Logger } from "../../base/log.ts";
import { requirePermitted } from "../privileges.ts";
import type { Deployment } from "./deployment.ts";

export interface ReconcileOptions {
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  log: Logger;
}

/** A running workload that the policy no longer permits keeps running: the operator is warned and decides. */
function warnIfRefused(
  { name, record }: Deployment,
  { allowPrivileged, log }: ReconcileOptions,
): void {
  try {
    requirePermitted(record.spec, allowPrivileged);
  } catch (error) {
    log.warn("a deployment runs that would be refused now: it is not started again", {
      deployment: name,
      error,
    });
  }
}

/**
 * Takes one deployment over. Half-made and replaced instances are removed, running ones are watched again,
 * ended ones are restarted by their policy unless they were stopped on purpose. False where nothing of the
 * deployment is left. A failure is noted in its record and does not stop the take-over of others.
 */
export async function reconcile(
  deployment: Deployment,
  options: ReconcileOptions,
): Promise<boolean> {
  const { record, instances } = deployment;
  const { log } = options;
  try {
    // The deployment was deleted, or its first apply was cut short and never acknowledged.
    const unwanted = record.deleting || record.imageDigest === "";
    const gone = instances.filter((one) => unwanted || !one.ready);
    await Promise.all(gone.map((one) => one.remove()));
    deployment.drop(gone);
    if (unwanted) {
      await deployment.forget();
      return false;
    }
    const { pending } = record;
    const stopped = new Set(
      record.instances.filter(({ phase }) => phase === "yielding" || pending !== undefined)
        .map(({ key }) => key),
    );
    deployment.begin();
    await Promise.all(deployment.instances.map(async (one) => {
      let runs = await one.adopt();
      // It was stopped for a successor that never came up, or is to be started.
      if (stopped.has(one.made.key) && !record.stopped) {
        // The stop that was asked for may be under way: what runs now would end later.
        if (runs && pending !== "start") await one.stop();
        await one.start();
        runs = true;
      }
      if (runs && record.stopped) await one.stop();
      else if (record.stopped) await one.release();
      else {
        if (runs) warnIfRefused(deployment, options);
        one.supervise();
        log.info(runs ? "instance taken over" : "instance had ended", { instance: one.id });
      }
    }));
    await deployment.save();
  } catch (error) {
    deployment.failed(error);
    log.error("a deployment was not taken over", { deployment: record.name, error });
  }
  return true;
}

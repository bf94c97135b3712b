/** After the server's start: what is on disk and what runs are brought together again. */
import { requirePermitted } from "../../../lib/deploy/privileges.ts";
import type { Deployment } from "./deployment.ts";
import type { Host } from "./host.ts";

/** What runs goes on: whoever tightens the policy decides what becomes of it, and is told. */
function warnIfRefused(host: Host, { name, record }: Deployment): void {
  try {
    requirePermitted(record.spec, host.config.allowPrivileged);
  } catch (error) {
    host.log.warn("a deployment runs that would be refused now: it is not started again", {
      deployment: name,
      error,
    });
  }
}

/**
 * Takes one deployment over. Half-made and replaced instances go; running ones are watched again; those
 * that ended are restarted by their policy, unless they were stopped on purpose. False where nothing of
 * the deployment is left. A failure is noted in its record and does not keep others from coming up.
 */
export async function reconcile(host: Host, deployment: Deployment): Promise<boolean> {
  const { record } = deployment;
  const instances = record.instances.map((one) => deployment.instance(record.spec, one));
  deployment.instances = instances;
  try {
    const gone = instances.filter((one) => record.deleting || one.record.phase !== "ready");
    await Promise.all(gone.map((one) => one.remove()));
    deployment.instances = instances.filter((one) => !gone.includes(one));
    // Deleted, or its first apply was cut short: it was never acknowledged.
    if (record.deleting || record.imageDigest === "") {
      await deployment.forget();
      return false;
    }
    await Promise.all(deployment.instances.map(async (one) => {
      const runs = await one.adopt();
      if (runs && record.stopped) await one.stop();
      else if (record.stopped) await one.release();
      else {
        if (runs) warnIfRefused(host, deployment);
        one.supervise();
        host.log.info(runs ? "instance taken over" : "instance had ended", { instance: one.id });
      }
    }));
    await deployment.save();
  } catch (error) {
    record.error = (error as Error).message;
    host.log.error("a deployment was not taken over", { deployment: record.name, error });
  }
  return true;
}

/**
 * What the restart policy asks for after the end of one container, for a process that does this while no server
 * runs. The caller makes sure that none does, and that it is alone at this.
 */
import { LONGEST_DELAY } from "../restarts.ts";
import { Deployment } from "./deployment.ts";
import { type HostParts, hostParts } from "./parts.ts";
import { JsonRecords } from "../json_records.ts";
import type { DeploymentRecord } from "./record.ts";

/** Milliseconds that are waited for a restart here; a longer time is the caller's to wait. */
const SHORT = 150;

const nothing = () => {};
const done = () => Promise.resolve();

/**
 * Follows the restart policy of a container that has ended, as the server does: what it asks for is on record,
 * and a restart that is due is done. Returns the milliseconds until the next one is due; undefined: there is
 * nothing more to do. Names and published ports lead to the instance as before, since its address stays.
 */
export async function keepInstance(
  options: HostParts & { key: string },
): Promise<number | undefined> {
  const { key, engine, paths } = options;
  const records = new JsonRecords<DeploymentRecord>(paths.deployments);
  const isMeant = (one: { key: string }) => one.key === key;
  const record = (await records.load()).find(({ instances }) => instances.some(isMeant));
  // What was stopped on purpose, half made or being replaced is the server's to decide.
  if (!record || record.stopped || record.deleting || record.imageDigest === "") return undefined;
  if (record.instances.find(isMeant)!.phase !== "ready") return undefined;
  const parts = hostParts(options, () => []);
  const hooks = { attached: done, moved: done, changed: nothing, tell: nothing };
  const deployment = new Deployment(parts, records, record, hooks);
  const instance = deployment.instances.find(({ made }) => isMeant(made))!;
  try {
    if (await instance.adopt()) {
      await deployment.save();
      return undefined;
    }
    instance.supervise();
    for (;;) {
      await deployment.save();
      const { state, restarted } = instance.life;
      if (state.is !== "waiting") return undefined;
      // The clock may have been set back since the time was written down.
      const left = Math.min(LONGEST_DELAY, state.due - Date.now());
      if (left > SHORT) return left;
      await restarted;
      // What a start that failed has left, a monitor among it.
      if (!instance.running) await engine.delete(key);
    }
  } finally {
    await instance.release();
    engine.close();
  }
}

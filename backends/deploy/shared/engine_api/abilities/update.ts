/** Bounds and restart policies of containers that are there. */
import { SvcError } from "../../../../../lib/base/errors.ts";
import { amended, joined } from "../../../../../lib/deploy/amended.ts";
import type { DeployCaps, InstanceUpdate } from "../../../../../lib/deploy/caps.ts";
import { allOrFirstError } from "../../../../../lib/deploy/roll_out.ts";
import { daemonStatus, isGone } from "../../../../../lib/docker/errors.ts";
import { boundsOf, restartPolicy } from "../container.ts";
import { instanceId } from "../record.ts";
import type { AbilityParts } from "./parts.ts";

/** The engine's words of a refusal, which it has several statuses for. */
function refused(error: unknown, attempted: string): unknown {
  if (daemonStatus(error) === undefined || isGone(error)) return error;
  const { code, message } = error as SvcError;
  if (code === "not_found" || code === "unavailable") return error;
  const words = message.slice(attempted.length + 2);
  return new SvcError("conflict", `${attempted}: ${words}`, {
    cause: error,
    help: "see the engine's words above",
  });
}

export function updateAbility(
  { client, watch, require }: AbilityParts,
): NonNullable<DeployCaps["update"]> {
  return async (name, update: InstanceUpdate, { instance, signal } = {}) => {
    const deployment = require(name);
    const { record } = deployment;
    const chosen = instance === undefined ? record.instances : [deployment.pick(instance)];
    await allOrFirstError(chosen.map(async (one) => {
      const all = joined(one.amended, update);
      const spec = amended(record.spec, all);
      const attempted = `Cannot update ${instanceId(name, one.replica)}`;
      await client.run({
        path: `/containers/${one.container}/update`,
        json: {
          ...boundsOf(spec),
          // As Docker has it where nothing was said. Else the former one would bound more memory.
          ...update.memoryLimit && { MemorySwap: 2 * update.memoryLimit },
          // On trial or stopped for good it has none.
          ...update.restart && { RestartPolicy: restartPolicy(spec) },
        },
        attempted,
        signal,
      }).catch((error) => {
        throw refused(error, attempted);
      });
      one.amended = all;
      await watch.look(one.container, signal);
    }));
    await deployment.save();
  };
}

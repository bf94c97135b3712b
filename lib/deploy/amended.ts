/** Specs of instances that were changed as they are: lib/deploy/caps.ts has the ability `update`. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { InstanceUpdate } from "../api/workload.ts";
import { SvcError } from "../base/errors.ts";
import type { RestartRule } from "./restarts.ts";

/** The spec as the update has it. Throws `argument_invalid` for bounds that contradict each other. */
export function amended(spec: DeploySpec, update: InstanceUpdate | undefined): DeploySpec {
  if (!update) return spec;
  const { restart, restartMaxAttempts, ...bounds } = update;
  const resources = { ...spec.resources, ...bounds };
  const { memoryLimit = Infinity, reservedMemory = 0 } = resources;
  if (reservedMemory > memoryLimit) {
    throw new SvcError(
      "argument_invalid",
      `Cannot update ${spec.name}: ${reservedMemory} bytes are reserved, more than the limit of ${memoryLimit}`,
      { help: "set the limit, the reservation or both" },
    );
  }
  return {
    ...spec,
    ...Object.keys(resources).length > 0 && { resources },
    ...restart && { restart, restartMaxAttempts },
  };
}

/** Two updates as one. */
export const joined = (first: InstanceUpdate = {}, then: InstanceUpdate): InstanceUpdate => ({
  ...first,
  // It is of the policy that it came with.
  ...then.restart && { restartMaxAttempts: undefined },
  ...then,
});

export const restartRule = ({ restart, restartMaxAttempts }: DeploySpec): RestartRule => ({
  policy: restart,
  maxAttempts: restartMaxAttempts,
});

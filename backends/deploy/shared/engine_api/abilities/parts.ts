/** What the abilities work on. */
import { SvcError } from "../../../../../lib/base/errors.ts";
import type { DockerClient } from "../../../../../lib/docker/client.ts";
import type { EngineBehaviour } from "../behaviour.ts";
import type { Deployment } from "../deployment.ts";
import { type Inspected, runs } from "../inspect.ts";
import type { EngineNetworks } from "../networks.ts";
import { instanceId } from "../record.ts";
import type { EngineWatch } from "../watch.ts";

/** What the abilities of every engine work on. */
export interface DeployedParts {
  watch: EngineWatch;
  networks: EngineNetworks;
  /** Identity of the server. */
  server: string;
  /** Throws `not_found`. */
  require: (name: string) => Deployment;
  deployments: () => Iterable<Deployment>;
  /** Throws where the deployment may no longer mount the folders that it mounts. */
  requireStill: (deployment: Deployment) => Promise<void>;
}

export interface AbilityParts extends DeployedParts {
  client: DockerClient;
  behaviour: EngineBehaviour;
}

/** An instance whose main process runs. */
export interface RunningInstance {
  id: string;
  container: string;
  found: Inspected;
}

/** The running instances, or the named one. Throws `not_found`, and `conflict` where the named one does not run. */
export function runningOnes(
  { require, watch }: Pick<DeployedParts, "require" | "watch">,
  name: string,
  id?: string,
): RunningInstance[] {
  const deployment = require(name);
  watch.requireLive();
  const chosen = id === undefined ? deployment.record.instances : [deployment.pick(id)];
  const found = chosen.flatMap(({ container, replica }) => {
    const found = watch.state(container);
    return found && runs(found) ? [{ id: instanceId(name, replica), container, found }] : [];
  });
  if (found.length > 0 || id === undefined) return found;
  throw new SvcError("conflict", `Cannot use instance ${id}: it is not running`, {
    help: "start the deployment first",
  });
}

/** {@linkcode runningOnes}, of which there is one at least. Throws `conflict` where none runs. */
export function requireRunning(
  parts: Pick<DeployedParts, "require" | "watch">,
  name: string,
  id?: string,
): RunningInstance[] {
  const found = runningOnes(parts, name, id);
  if (found.length > 0) return found;
  throw new SvcError("conflict", `Cannot use deployment ${name}: no instance runs`, {
    help: "start the deployment first",
  });
}

/** The named instance; absent: the first that runs. Throws `not_found`, and `conflict` where it does not run. */
export function runningOne(
  { require, watch }: Pick<DeployedParts, "require" | "watch">,
  name: string,
  instance?: string,
): RunningInstance {
  const { container, replica } = require(name).pick(instance);
  watch.requireLive();
  const found = watch.state(container);
  const id = instanceId(name, replica);
  if (found && runs(found)) return { id, container, found };
  throw new SvcError("conflict", `Cannot use instance ${id}: it is not running`, {
    help: "start the deployment first",
  });
}

/** What a service waits for before it starts, and what `--wait` waits for. */
import type { DeploymentStatus, InstanceStatus } from "../api/deployment.ts";
import { SvcError } from "../base/errors.ts";
import { containersOf, isUp, serviceState } from "./state.ts";
import type { Dependency } from "./service.ts";

export type Condition = Dependency["condition"] | "running_or_healthy";

/** The word for a container of which the condition is true. */
export const FULFILLED: Record<Condition, string> = {
  service_started: "Started",
  service_healthy: "Healthy",
  service_completed_successfully: "Exited",
  running_or_healthy: "Healthy",
};

function failed(name: string, what: string): SvcError {
  return new SvcError("deploy_failed", `Cannot go on: container ${name} ${what}`, {
    help: "see `svc compose logs`; what runs is left running",
  });
}

/** True: an instance that has ended is started again. */
const isPending = ({ state }: DeploymentStatus) => state === "pending" || state === "creating";

function isHealthy(name: string, instance: InstanceStatus, status: DeploymentStatus): boolean {
  if (instance.state === "healthy") return true;
  if (instance.state === "unhealthy") throw failed(name, "is unhealthy");
  if (isUp(instance)) {
    if (instance.health) return false;
    throw failed(name, "has no healthcheck configured");
  }
  return notEnded(name, instance, status);
}

function notEnded(name: string, instance: InstanceStatus, status: DeploymentStatus): false {
  if (instance.state === "created" || isPending(status)) return false;
  throw failed(name, `exited (${instance.exitCode ?? 0})`);
}

function isRunning(name: string, instance: InstanceStatus, status: DeploymentStatus): boolean {
  if (isUp(instance)) return instance.health ? isHealthy(name, instance, status) : true;
  return notEnded(name, instance, status);
}

function isComplete(name: string, instance: InstanceStatus, status: DeploymentStatus): boolean {
  // With a restart policy it may be between two runs.
  if (instance.state !== "exited" || isPending(status)) return false;
  if (instance.exitCode === 0) return true;
  throw failed(name, `didn't complete successfully: exit ${instance.exitCode}`);
}

const CHECKS = {
  service_started: () => true,
  service_healthy: isHealthy,
  service_completed_successfully: isComplete,
  running_or_healthy: isRunning,
} as const satisfies Record<
  Condition,
  (name: string, instance: InstanceStatus, status: DeploymentStatus) => boolean
>;

/** Whether the condition is true of all containers. Throws `deploy_failed` where it will not become true. */
export function isFulfilled(condition: Condition, status: DeploymentStatus | undefined): boolean {
  const state = status && serviceState(status);
  if (!state) {
    throw new SvcError("deploy_failed", "Cannot go on: a service was removed meanwhile");
  }
  const all = containersOf(state).map(({ name, instance }) =>
    CHECKS[condition](name, instance, state.status)
  );
  return all.every(Boolean);
}

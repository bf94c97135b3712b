/** What of a status is shown to whom: what a workload prints is for who may see its logs or run commands in it. */
import type { DeploymentStatus } from "../api/deployment.ts";
import type { Identity } from "../api/route.ts";
import type { ManagementDeps } from "./deps.ts";

/** The status for this caller. An error of a roll-out ends with what its instances printed. */
export function shownTo(
  { access }: Pick<ManagementDeps, "access">,
  identity: Identity,
  status: DeploymentStatus,
): DeploymentStatus {
  if (access.allows(identity, "logs") || access.allows(identity, "exec")) return status;
  return {
    ...status,
    instances: status.instances.map(({ health, message, ...one }) => ({
      ...one,
      ...(message !== undefined && {
        message: one.state === "unhealthy" ? "its last health check failed" : message,
      }),
      ...(health && {
        health: { ...health, ...(health.last && { last: { ...health.last, output: "" } }) },
      }),
    })),
    ...(status.error !== undefined && {
      error: "the last change failed; the reason is shown to who may see the logs",
    }),
  };
}

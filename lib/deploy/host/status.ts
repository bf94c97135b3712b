/** The public status of an instance. */
import type { InstanceStatus } from "../../api/deployment.ts";
import type { Life } from "./life.ts";

export function statusOf(
  id: string,
  { state, run, end, record }: Life,
  ip?: string,
): InstanceStatus {
  const health = run?.health?.state;
  const is = run
    ? run.paused ? "paused" : health === undefined || health === "starting" ? "running" : health
    : end
    ? "exited"
    : "created";
  const restarts = state.is === "waiting" && `restarts at ${new Date(state.due).toISOString()}`;
  const message = is === "unhealthy"
    ? `its last health check ${run?.health?.lastFailure}`
    : [end?.message, restarts].filter(Boolean).join("; ");
  return {
    id,
    state: is,
    restarts: record.restarts,
    ...(end && { exitCode: end.code }),
    ...(run && { pid: run.process.pid }),
    ...(record.startedAt && { startedAt: record.startedAt }),
    ...(end && { finishedAt: end.finishedAt }),
    ...(ip && { ip }),
    ...(message && { message }),
    ...(run?.health && { health: run.health.report }),
  };
}

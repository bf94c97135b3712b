/** What is told of an instance. */
import type { InstanceStatus } from "../../../lib/api/deployment.ts";
import type { Health } from "../../../lib/deploy/health.ts";
import type { InstanceRecord } from "./record.ts";

/**
 * `due`: when it is started again, in milliseconds since 1970. `failed`: how the last health check that failed
 * ended, and what it printed.
 */
export function statusOf(
  id: string,
  record: InstanceRecord,
  { running, health, failed, due }: {
    running: boolean;
    health?: Health;
    failed?: string;
    due?: number;
  },
): InstanceStatus {
  const state = running
    ? health === undefined || health === "starting" ? "running" : health
    : record.exitCode !== undefined
    ? "exited"
    : record.startedAt === undefined
    ? "created"
    : "failed";
  const message = state === "unhealthy"
    ? `its last health check ${failed}`
    : due === undefined
    ? record.message
    : `${record.message ? `${record.message}; ` : ""}restarts at ${new Date(due).toISOString()}`;
  return {
    id,
    state,
    restarts: record.restarts,
    ...(!running && record.exitCode !== undefined && { exitCode: record.exitCode }),
    ...(record.process && { pid: record.process.pid }),
    ...(record.startedAt && { startedAt: record.startedAt }),
    ...(!running && record.finishedAt && { finishedAt: record.finishedAt }),
    ...(record.networks[0]?.ip && { ip: record.networks[0].ip }),
    ...(message && { message }),
  };
}

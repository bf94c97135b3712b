/** Typed calls of the routes that watch workloads and change their instances. */
import type { InstanceEvent } from "../api/deployment.ts";
import type {
  InstanceStats,
  InstanceUpdate,
  NetworkStatus,
  ProcessList,
  VolumeStatus,
} from "../api/workload.ts";
import type { Client } from "./client.ts";
import { problemError } from "./problems.ts";

export interface StatsQuery {
  /** Goes on with a sample every second until no instance runs. */
  follow?: boolean;
  instance?: string;
}

/** Samples of a deployment's running instances. Throws `not_found`, and what the server reports in mid-stream. */
export async function* readStats(
  client: Client,
  name: string,
  { follow, instance }: StatsQuery = {},
): AsyncGenerator<InstanceStats> {
  const events = client.events("GET /deployments/{name}/stats", {
    params: { name },
    query: { follow: follow ? "true" : undefined, instance },
  });
  for await (const event of events) {
    if ("error" in event) throw problemError(event.error);
    yield event;
  }
}

/**
 * State changes of instances from the call on: of the named deployments, or of all. Ends when the server stops.
 */
export async function* readEvents(
  client: Client,
  deployments: readonly string[] = [],
): AsyncGenerator<InstanceEvent> {
  const query = new URLSearchParams(deployments.map((name) => ["deployment", name]));
  for await (const event of client.events("GET /events", { query })) {
    if ("error" in event) throw problemError(event.error);
    yield event;
  }
}

export function listProcesses(
  client: Client,
  name: string,
  instance?: string,
): Promise<ProcessList[]> {
  return client.json("GET /deployments/{name}/top", { params: { name }, query: { instance } });
}

/** `signal`: a name or a number. */
export async function signalDeployment(
  client: Client,
  name: string,
  signal: string,
  instance?: string,
): Promise<void> {
  const call = { params: { name }, query: { signal, instance } };
  await client.json("POST /deployments/{name}/signal", call);
}

export async function freezeDeployment(
  client: Client,
  name: string,
  act: "pause" | "unpause",
  instance?: string,
): Promise<void> {
  await client.json(`POST /deployments/{name}/${act}`, { params: { name }, query: { instance } });
}

/** Changes its instances as they are, or one of them. */
export async function updateDeployment(
  client: Client,
  name: string,
  update: InstanceUpdate,
  instance?: string,
): Promise<void> {
  const { cpuLimit, memoryLimit, reservedMemory, restart, restartMaxAttempts } = update;
  const text = (value: number | undefined) => value === undefined ? undefined : String(value);
  const query = {
    cpus: text(cpuLimit),
    memory: text(memoryLimit),
    reservedMemory: text(reservedMemory),
    restart,
    maxAttempts: text(restartMaxAttempts),
    instance,
  };
  await client.json("POST /deployments/{name}/update", { params: { name }, query });
}

/** What svc makes for deployments beside them. */
export type ManagedKind = "volumes" | "networks";
export type ManagedStatus = VolumeStatus | NetworkStatus;

export function listManaged(client: Client, kind: ManagedKind): Promise<ManagedStatus[]> {
  return kind === "volumes" ? client.json("GET /volumes") : client.json("GET /networks");
}

/** Throws `not_found`. */
export function inspectManaged(
  client: Client,
  kind: ManagedKind,
  name: string,
): Promise<ManagedStatus> {
  const call = { params: { name } };
  return kind === "volumes"
    ? client.json("GET /volumes/{name}", call)
    : client.json("GET /networks/{name}", call);
}

/** Throws `not_found`, and `conflict` where a deployment uses it. */
export async function removeManaged(
  client: Client,
  kind: ManagedKind,
  name: string,
): Promise<void> {
  await client.json(`DELETE /${kind}/{name}`, { params: { name } });
}

/** What of a project is on the server: its deployments, found by their labels. */
import type { DeploymentStatus, InstanceStatus } from "../api/deployment.ts";
import type { Client } from "../client/client.ts";
import { listDeployments } from "../client/deployments.ts";
import { containerName, LABELS, numberOf } from "./names.ts";

/** One service of a project as it is on the server. */
export interface ServiceState {
  project: string;
  service: string;
  /** Services that it was started after. */
  dependsOn: string[];
  oneOff: boolean;
  /** Its `container_name`. */
  container?: string;
  status: DeploymentStatus;
}

/** One instance, as docker compose speaks of it. */
export interface Container {
  state: ServiceState;
  /** "shop-web-1". */
  name: string;
  /** From 1. */
  number: number;
  instance: InstanceStatus;
}

/** Undefined: the deployment is of no project. */
export function serviceState(status: DeploymentStatus): ServiceState | undefined {
  const { labels = {} } = status;
  const [project, service] = [labels[LABELS.project], labels[LABELS.service]];
  if (!project || !service) return undefined;
  const container = labels[LABELS.container];
  return {
    project,
    service,
    dependsOn: labels[LABELS.dependsOn]?.split(",").filter(Boolean) ?? [],
    oneOff: labels[LABELS.oneOff] === "true",
    ...(container && { container }),
    status,
  };
}

/** All projects' services, in order of their names. */
export async function allStates(client: Client): Promise<ServiceState[]> {
  return (await listDeployments(client)).flatMap((status) => serviceState(status) ?? []);
}

/** The project's services, those of `run` among them. */
export async function projectStates(client: Client, project: string): Promise<ServiceState[]> {
  return (await allStates(client)).filter((one) => one.project === project);
}

/** The name of an instance by its id. */
export function nameOf(state: ServiceState, instance: string): string {
  // One that `run` made has a name of its own.
  if (state.oneOff) return state.container ?? state.status.name;
  return containerName(state, numberOf(state.status.name, instance));
}

export function containersOf(state: ServiceState): Container[] {
  return state.status.instances.map((instance) => ({
    state,
    name: nameOf(state, instance.id),
    number: numberOf(state.status.name, instance.id),
    instance,
  }));
}

const UP = new Set(["running", "healthy", "unhealthy", "paused"]);

export const isUp = ({ state }: InstanceStatus) => UP.has(state);

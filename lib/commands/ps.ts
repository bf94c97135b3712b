/** `svc ps`: the deployments, one a line. */
import type { DeploymentStatus, PublishedPort } from "../api/deployment.ts";
import type { IngressEndpoint } from "../api/ingress.ts";
import { formatAge, renderTable } from "../base/table.ts";
import { listDeployments } from "../client/deployments.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";

/** "0.0.0.0:8080->80/tcp", as docker has it. */
export function formatPort(port: PublishedPort): string {
  const host = port.hostIP.includes(":") ? `[${port.hostIP}]` : port.hostIP || "0.0.0.0";
  return `${host}:${port.host}->${port.container}/${port.protocol}`;
}

/** Published ports, then declared ports that are not published: "80/tcp". */
export function formatPorts({ ports, exposed = [] }: DeploymentStatus): string {
  const published = new Set(ports.map((port) => `${port.container}/${port.protocol}`));
  const alone = exposed.map((port) => `${port.container}/${port.protocol}`);
  return [...ports.map(formatPort), ...alone.filter((port) => !published.has(port))].join(", ");
}

/** The URL at the server's front door; without a front door, the host and path that tunnels lead to. */
export function formatIngress({ url, host, path }: IngressEndpoint): string {
  return url ?? `${host}${path === "/" ? "" : path}`;
}

const UP = new Set(["running", "healthy"]);

/** "1/2": running instances of all instances. */
export function formatInstances(status: DeploymentStatus): string {
  return `${status.instances.filter((i) => UP.has(i.state)).length}/${status.instances.length}`;
}

/** "paused" where all instances are: the deployment itself counts as running. */
export function formatState({ state, instances }: DeploymentStatus): string {
  const paused = instances.length > 0 && instances.every((i) => i.state === "paused");
  return paused ? "paused" : state;
}

export async function run(invocation: Invocation): Promise<number> {
  const { io, values } = invocation;
  const deployments = await listDeployments(await connect(invocation));
  if (values.output === "json") {
    await io.stdout.write(deployments.map((d) => JSON.stringify(d) + "\n").join(""));
    return 0;
  }
  const now = Date.now();
  const rows = deployments.map((d) => [
    d.name,
    d.image,
    formatState(d),
    formatInstances(d),
    formatPorts(d),
    formatAge(now - Date.parse(d.createdAt)),
  ]);
  await io.stdout.write(
    renderTable(["NAME", "IMAGE", "STATE", "INSTANCES", "PORTS", "AGE"], rows),
  );
  return 0;
}

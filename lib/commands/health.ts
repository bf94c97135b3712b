/** `svc health [NAME…]`: what health checks found; ends with 1 where something is not well. */
import type { DeploymentStatus, InstanceHealth, InstanceStatus } from "../api/deployment.ts";
import { formatAge, renderTable } from "../base/table.ts";
import { getDeployment, listDeployments } from "../client/deployments.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";

/** The state of an instance's health; without a health check the instance's own state. */
const stateOf = ({ health, state }: InstanceStatus): string => health?.state ?? state;

const WELL = new Set(["healthy", "running"]);

/** Whether everything is as it should be; a deployment that was stopped is, unless it was asked for by name. */
function isWell({ state, instances }: DeploymentStatus, named: boolean): boolean {
  if (state === "stopped" && !named) return true;
  return instances.length > 0 && instances.every((instance) => WELL.has(stateOf(instance)));
}

function probeText({ last }: InstanceHealth): string {
  if (!last) return "no probe has ended";
  const code = last.exitCode === undefined ? "" : `exit code ${last.exitCode}`;
  const output = last.output.trim().replaceAll(/\s*\n\s*/g, " / ");
  return [code, output].filter(Boolean).join(": ");
}

function rowOf(name: string, instance: InstanceStatus, now: number): string[] {
  const { health } = instance;
  return [
    name,
    instance.id,
    stateOf(instance),
    health ? String(health.failures) : "",
    health?.last ? formatAge(now - Date.parse(health.last.time)) : "",
    health ? probeText(health) : "no health check",
  ];
}

export async function run(invocation: Invocation): Promise<number> {
  const { io, values, positionals: names } = invocation;
  const client = await connect(invocation);
  const found = names.length === 0
    ? await listDeployments(client)
    : await Promise.all(names.map((name) => getDeployment(client, name)));
  const well = found.every((status) => isWell(status, names.length > 0));
  if (values.output === "json") {
    const lines = found.flatMap(({ name, state, instances }) =>
      instances.map((instance) => ({
        deployment: name,
        deploymentState: state,
        instance: instance.id,
        state: stateOf(instance),
        ...instance.health && { health: instance.health },
      }))
    );
    await io.stdout.write(lines.map((line) => JSON.stringify(line) + "\n").join(""));
    return well ? 0 : 1;
  }
  const now = Date.now();
  const rows = found.flatMap(({ name, state, instances }) =>
    instances.length > 0
      ? instances.map((instance) => rowOf(name, instance, now))
      : [[name, "", state, "", "", "it has no instances"]]
  );
  await io.stdout.write(
    renderTable(["NAME", "INSTANCE", "HEALTH", "FAILURES", "PROBED", "LAST PROBE"], rows),
  );
  return well ? 0 : 1;
}

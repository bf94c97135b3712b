/** `svc status NAME`: everything the server says of one deployment. */
import type { DeploymentStatus, InstanceStatus } from "../api/deployment.ts";
import { formatAge, renderTable } from "../base/table.ts";
import { getDeployment } from "../client/deployments.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { renderFacts } from "./facts.ts";
import { formatIngress, formatInstances, formatPorts } from "./ps.ts";

/** "shop main@1a2b3c4 by ci", from the parts that are known. */
function formatOrigin({ origin = {} }: DeploymentStatus): string {
  const { project, directory, git, user, host, subject } = origin;
  const commit = git?.commit && `${git.commit.slice(0, 7)}${git.dirty ? "+" : ""}`;
  const by = subject ?? (user && host ? `${user}@${host}` : user ?? host);
  return [
    project ?? directory,
    [git?.branch, commit].filter(Boolean).join("@"),
    by && `by ${by}`,
  ].filter(Boolean).join(" ");
}

function facts(status: DeploymentStatus, now: number): string {
  const rows: [string, string][] = [
    ["Name", status.name],
    ["State", status.state],
    ["Image", status.image],
    ["Digest", status.imageDigest ?? ""],
    ["Ports", formatPorts(status)],
    ["Ingress", (status.ingress ?? []).map(formatIngress).join(", ")],
    ["Instances", formatInstances(status)],
    ["Labels", Object.entries(status.labels ?? {}).map((pair) => pair.join("=")).join("\n")],
    ["Origin", formatOrigin(status)],
    ["Age", formatAge(now - Date.parse(status.createdAt))],
    ["Error", status.error ?? ""],
  ];
  return renderFacts(rows);
}

function instanceRow(instance: InstanceStatus, now: number): string[] {
  const state = instance.exitCode === undefined || instance.state !== "exited"
    ? instance.state
    : `exited(${instance.exitCode})`;
  return [
    instance.id,
    state,
    String(instance.restarts),
    instance.ip ?? "",
    instance.startedAt ? formatAge(now - Date.parse(instance.startedAt)) : "",
    (instance.message ?? "").replaceAll(/\s*\n\s*/g, " "),
  ];
}

export async function run(invocation: Invocation): Promise<number> {
  const { io, values, positionals: [name] } = invocation;
  const status = await getDeployment(await connect(invocation), name);
  if (values.output === "json") {
    await io.stdout.write(JSON.stringify(status) + "\n");
    return 0;
  }
  const now = Date.now();
  let text = facts(status, now);
  if (status.instances.length > 0) {
    const headers = ["INSTANCE", "STATE", "RESTARTS", "IP", "UP", "MESSAGE"];
    text += "\n" + renderTable(headers, status.instances.map((i) => instanceRow(i, now)));
  }
  await io.stdout.write(text);
  for (const warning of status.warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  return 0;
}

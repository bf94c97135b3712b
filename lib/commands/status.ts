/** `svc status NAME`: everything the server says of one deployment. */
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { DeploymentStatus, InstanceStatus } from "../api/deployment.ts";
import { formatAge, renderTable } from "../base/table.ts";
import { getDeployment, getSpec } from "../client/deployments.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { renderFacts } from "./facts.ts";
import type { STATUS_OPTIONS } from "./options.ts";
import { formatIngress, formatInstances, formatPorts, formatState } from "./ps.ts";

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
    ["State", formatState(status)],
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

/** Read as the merge of another map where it is not quoted; as a block, lines of blanks alone lose them. */
const QUOTED = /^<<$|^\s|\n[ \t]+(\n|$)/;

async function yamlOf(spec: DeploySpec): Promise<string> {
  const { Document, visit } = await import("../client/yaml.ts");
  const document = new Document(spec);
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value === "string" && QUOTED.test(node.value)) node.type = "QUOTE_DOUBLE";
    },
  });
  return document.toString({ lineWidth: 0 });
}

export async function run(invocation: Invocation<typeof STATUS_OPTIONS>): Promise<number> {
  const { io, values, positionals: [name] } = invocation;
  const client = await connect(invocation);
  if (values.output === "yaml") {
    await io.stdout.write(await yamlOf(await getSpec(client, name)));
    return 0;
  }
  const status = await getDeployment(client, name);
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

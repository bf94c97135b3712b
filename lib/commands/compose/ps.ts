/** `svc compose ps [SERVICE…]`. */
import { SvcError } from "../../base/errors.ts";
import { renderTable } from "../../base/table.ts";
import { getSpec } from "../../client/deployments.ts";
import { type Container, containersOf, isUp } from "../../compose/state.ts";
import type { Invocation } from "../command.ts";
import { formatPorts } from "../ps.ts";
import { ago, healthOf, stateOf, statusText } from "./human.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { PS_OPTIONS } from "./options.ts";
import { imageNames } from "./server_images.ts";
import { chosen, openSession, type Session } from "./session.ts";

type Call = ProjectInvocation & Invocation<typeof PS_OPTIONS>;

/** Characters of a command in the table. */
const COMMAND_WIDTH = 20;

const STATES = ["created", "running", "paused", "restarting", "exited", "removing", "dead"];

/** States of --status and --filter; undefined: any. */
function statesOf({ values }: Call): Set<string> | undefined {
  const states = [...values.status ?? []];
  for (const text of values.filters ?? []) {
    const [, key, value = ""] = /^([^=]+)=(.*)$/.exec(text) ?? [];
    if (key === "status") states.push(value);
    else if (key !== "source") {
      throw new SvcError(
        "usage",
        `Cannot read --filter ${JSON.stringify(text)}: write status=STATE`,
      );
    }
  }
  const unknown = states.find((state) => !STATES.includes(state));
  if (unknown !== undefined) {
    throw new SvcError("usage", `Cannot list containers: there is no state ${unknown}`, {
      help: `the states are ${STATES.join(", ")}`,
    });
  }
  return states.length > 0 ? new Set(states) : undefined;
}

/** As docker shows a word of a command. */
const shellWord = (word: string) => /\s/.test(word) ? `'${word}'` : word;

/** The commands of services, where the caller may read their specs. */
async function commandsOf(
  { client }: Session,
  containers: readonly Container[],
): Promise<Map<string, string>> {
  const names = new Set(containers.map(({ state }) => state.status.name));
  const found = await Promise.all([...names].map(async (name) => {
    try {
      const { entrypoint = [], command = [] } = await getSpec(client, name);
      return [name, [...entrypoint, ...command].map(shellWord).join(" ")] as const;
    } catch (error) {
      if (error instanceof SvcError && ["denied", "not_found"].includes(error.code)) {
        return [name, ""] as const;
      }
      throw error;
    }
  }));
  return new Map(found);
}

function quoted(command: string, whole: boolean): string {
  const text = whole || command.length <= COMMAND_WIDTH
    ? command
    : `${command.slice(0, COMMAND_WIDTH - 1)}…`;
  return JSON.stringify(text);
}

function jsonOf(
  container: Container,
  command: string,
  nameOf: (image: string) => string,
): Record<string, unknown> {
  const { name, instance, state: { project, service, status } } = container;
  return {
    Command: JSON.stringify(command),
    CreatedAt: status.updatedAt,
    ExitCode: instance.exitCode ?? 0,
    Health: healthOf(instance),
    ID: instance.id,
    Image: nameOf(status.image),
    Labels: Object.entries(status.labels ?? {}).map((pair) => pair.join("=")).join(","),
    Name: name,
    Names: name,
    Ports: isUp(instance) ? formatPorts(status) : "",
    Project: project,
    Publishers: status.ports.map(({ hostIP, host, container, protocol }) => ({
      URL: hostIP,
      TargetPort: container,
      PublishedPort: host,
      Protocol: protocol,
    })),
    RunningFor: ago(status.updatedAt),
    Service: service,
    State: stateOf(container),
    Status: statusText(container),
  };
}

export async function run(call: Call): Promise<number> {
  const { io, values, positionals: names } = call;
  const states = statesOf(call);
  const session = await openSession(call);
  const all = chosen(session, names, { oneOff: values.all }).flatMap(containersOf);
  const shown = all.filter((container) =>
    states
      ? states.has(stateOf(container))
      : values.all || !["exited", "created"].includes(stateOf(container))
  ).sort((a, b) => a.name < b.name ? -1 : 1);
  if (values.quiet || values.services) {
    const words = new Set(shown.map(({ name, state }) => values.services ? state.service : name));
    await io.stdout.write([...words].map((word) => `${word}\n`).join(""));
    return 0;
  }
  const [commands, nameOf] = await Promise.all([
    commandsOf(session, shown),
    imageNames(session.client),
  ]);
  const commandOf = ({ state }: Container) => commands.get(state.status.name) ?? "";
  if (values.format === "json" || values.output === "json") {
    await io.stdout.write(
      shown.map((one) => JSON.stringify(jsonOf(one, commandOf(one), nameOf)) + "\n").join(""),
    );
    return 0;
  }
  const rows = shown.map((one) => [
    one.name,
    nameOf(one.state.status.image),
    quoted(commandOf(one), values.noTrunc ?? false),
    one.state.service,
    ago(one.state.status.updatedAt),
    statusText(one),
    isUp(one.instance) ? formatPorts(one.state.status) : "",
  ]);
  const headers = ["NAME", "IMAGE", "COMMAND", "SERVICE", "CREATED", "STATUS", "PORTS"];
  await io.stdout.write(renderTable(headers, rows, { narrowest: 10 }));
  return 0;
}

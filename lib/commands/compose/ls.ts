/** `svc compose ls`: the projects on the server. */
import { SvcError } from "../../base/errors.ts";
import { renderTable } from "../../base/table.ts";
import { allStates, containersOf, type ServiceState } from "../../compose/state.ts";
import type { Invocation } from "../command.ts";
import { connect } from "../connect.ts";
import { stateOf } from "./human.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { LS_OPTIONS } from "./options.ts";

type Call = ProjectInvocation & Invocation<typeof LS_OPTIONS>;

/** "exited(1), running(2)". */
function statusOf(states: readonly ServiceState[]): string {
  const counts = new Map<string, number>();
  for (const one of states.flatMap(containersOf)) {
    const state = stateOf(one);
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts].sort().map(([state, count]) => `${state}(${count})`).join(", ");
}

function nameFilter({ values }: Call): (name: string) => boolean {
  const wanted = (values.filters ?? []).map((text) => {
    const [, name] = /^name=(.*)$/.exec(text) ?? [];
    if (name !== undefined) return name;
    throw new SvcError("usage", `Cannot read --filter ${JSON.stringify(text)}: write name=TEXT`);
  });
  return (name) => wanted.length === 0 || wanted.some((text) => name.includes(text));
}

export async function run(call: Call): Promise<number> {
  const { io, values } = call;
  const isWanted = nameFilter(call);
  const byProject = Map.groupBy(
    (await allStates(await connect(call))).filter(({ oneOff }) => !oneOff),
    ({ project }) => project,
  );
  const rows = [...byProject].sort(([a], [b]) => a < b ? -1 : 1).flatMap(([name, states]) => {
    const status = statusOf(states);
    const shown = isWanted(name) && (values.all || /running|restarting|paused/.test(status));
    const directory = states.find(({ status }) => status.origin?.directory)?.status.origin
      ?.directory;
    return shown ? [{ Name: name, Status: status, Directory: directory ?? "" }] : [];
  });
  const text = values.quiet
    ? rows.map(({ Name }) => `${Name}\n`).join("")
    : values.format === "json" || values.output === "json"
    ? JSON.stringify(rows) + "\n"
    : renderTable(["NAME", "STATUS", "DIRECTORY"], rows.map((row) => Object.values(row)), {
      narrowest: 20,
    });
  await io.stdout.write(text);
  return 0;
}

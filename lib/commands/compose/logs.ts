/** `svc compose logs [SERVICE…]`. */
import { readLogs } from "../../client/deployments.ts";
import { sessionLogs } from "../../client/session_logs.ts";
import { instanceOf } from "../../compose/names.ts";
import type { ServiceState } from "../../compose/state.ts";
import type { Invocation } from "../command.ts";
import { parseTail, parseTime } from "../logs.ts";
import { shortName } from "./attached.ts";
import { LogView } from "./log_view.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { LOGS_OPTIONS } from "./options.ts";
import { isLively } from "./progress.ts";
import { chosen, openSession } from "./session.ts";

type Call = ProjectInvocation & Invocation<typeof LOGS_OPTIONS>;

export async function run(call: Call): Promise<number> {
  const { io, values, env, positionals: names } = call;
  const query = {
    tail: parseTail(values.tail),
    since: values.since === undefined ? undefined : parseTime(values.since, "--since"),
    until: values.until === undefined ? undefined : parseTime(values.until, "--until"),
  };
  const session = await openSession(call);
  const { client } = session;
  const states = chosen(session, names, { oneOff: names.length === 0 });
  const view = new LogView({
    io,
    colours: !values.noColor && !env.NO_COLOR && isLively(values, io.stdout.isTerminal),
    prefix: !values.noLogPrefix,
    timestamps: values.timestamps ?? false,
  });
  for (const state of states) {
    view.expect(state.status.instances.map(({ id }) => shortName(state, id)));
  }
  const never = new AbortController().signal;
  const show = async (state: ServiceState) => {
    const { name } = state.status;
    const instance = values.index === undefined
      ? undefined
      : instanceOf(name, Number(values.index));
    const frames = values.follow && query.until === undefined && instance === undefined
      ? sessionLogs(client, name, { over: never, signal: io.signal, ...query })
      : readLogs(client, name, { ...query, instance, follow: values.follow });
    for await (const frame of frames) view.frame(shortName(state, frame.instance), frame);
  };
  await Promise.race([Promise.all(states.map(show)), view.broken]);
  await view.flush();
  return 0;
}

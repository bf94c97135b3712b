/** `svc compose watch [SERVICE…]`, and the watching of `up --watch`. */
import { selected } from "../../compose/order.ts";
import { projectStates } from "../../compose/state.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import { bringUp, requireLoaded } from "./bring_up.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { WATCH_OPTIONS } from "./options.ts";
import { openProgress, quietly } from "./progress.ts";
import { openSession, type Session } from "./session.ts";
import type { Watched } from "./watch/rules.ts";
import { watchProject } from "./watch/watch.ts";

type Call = ProjectInvocation & Invocation<typeof WATCH_OPTIONS>;

/** Brings these services up as the files are now: the images built anew, or where they are missing. */
async function refresh(
  call: ProjectInvocation,
  session: Session,
  { names, build, signal }: { names: readonly string[]; build: boolean; signal: AbortSignal },
): Promise<void> {
  const states = await projectStates(session.client, session.name);
  await using progress = openProgress(call);
  using watch = new Watch(session.client);
  await bringUp(call, {
    ...{ session: { ...session, states }, names, until: "started", watch, signal },
    values: { build, noDeps: build },
    report: progress.step.bind(progress),
  });
}

/** The rules of the named services, or of all. Throws where there is none, or one cannot be followed. */
export async function rulesOf(session: Session, names: readonly string[]): Promise<Watched[]> {
  const { watchedOf } = await import("./watch/rules.ts");
  const loaded = requireLoaded(session);
  return await watchedOf(loaded, selected(loaded, names, true));
}

/** Follows the rules until the signal. */
export async function follow(
  call: ProjectInvocation,
  session: Session,
  { rules, say, signal, onBusy }: {
    rules: readonly Watched[];
    say: (text: string) => void;
    signal: AbortSignal;
    onBusy?: (busy: boolean) => void;
  },
): Promise<void> {
  const warn = (text: string) => void call.io.stderr.write(`svc: warning: ${text}\n`);
  await watchProject({
    ...{ session, rules, say, warn, signal, onBusy },
    rebuild: (names) => refresh(call, session, { names, build: true, signal }),
  });
}

export async function run(call: Call): Promise<number> {
  const { io, values, positionals: names } = call;
  const session = await openSession(call, names);
  const rules = await rulesOf(session, names);
  const { signal } = io;
  const quiet = quietly(call, values.quiet);
  if (!values.noUp) await refresh(quiet, session, { names, build: false, signal });
  const say = (text: string) => void io.stdout.write(`${text}\n`);
  await follow(quiet, session, { rules, say, signal });
  return (signal.reason as { exitCode?: number } | undefined)?.exitCode ?? 130;
}

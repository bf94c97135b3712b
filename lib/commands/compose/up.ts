/** `svc compose up [SERVICE…]`. */
import type { DeploymentState } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { stop } from "../../compose/down.ts";
import { Hooks } from "../../compose/hooks.ts";
import { deploymentName } from "../../compose/names.ts";
import { isUp, projectStates, type ServiceState } from "../../compose/state.ts";
import { awaitCondition } from "../../compose/up.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import { clientFor } from "../connect.ts";
import { AttachedRun } from "./attached.ts";
import { bringUp, requireLoaded } from "./bring_up.ts";
import { stopHeeding } from "./hurry.ts";
import { LogView } from "./log_view.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type { UP_OPTIONS } from "./options.ts";
import { betweenLines, isLively, openProgress } from "./progress.ts";
import { openSession, secondsOf, type Session } from "./session.ts";

type Call = ProjectInvocation & Invocation<typeof UP_OPTIONS>;

/** Throws `usage` for flags that contradict each other, as docker compose has it. */
function checkFlags({ values, positionals }: Call): void {
  const aborts = values.abortOnExit || values.abortOnFailure || values.exitCodeFrom !== undefined;
  const refuse = (one: string, other: string) => {
    throw new SvcError("usage", `Cannot use ${one} together with ${other}`);
  };
  if (values.detach && (aborts || values.attachDependencies || values.attach?.length)) {
    refuse("--detach", aborts ? "an abort on exit" : "--attach");
  }
  if (values.watch && (values.detach || values.wait || values.noStart)) {
    refuse("--watch", values.detach ? "--detach" : values.wait ? "--wait" : "--no-start");
  }
  if (values.wait && aborts) refuse("--wait", "an abort on exit");
  if (values.build && values.noBuild) refuse("--build", "--no-build");
  if (values.noStart && values.wait) refuse("--no-start", "--wait");
  const service = values.exitCodeFrom;
  if (service !== undefined && positionals.length > 0 && !positionals.includes(service)) {
    throw new SvcError("usage", `Cannot use --exit-code-from ${service}: it is not brought up`);
  }
}

/** Waits until every service runs, or is healthy. */
export async function awaitServices(
  session: Session,
  names: readonly string[],
  options: Parameters<typeof awaitCondition>[0] & { timeoutMs?: number },
): Promise<void> {
  const { timeoutMs, signal, ...rest } = options;
  const late = timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
  const both = late ? AbortSignal.any([signal, late]) : signal;
  try {
    await Promise.all(names.map((name) =>
      awaitCondition(
        { ...rest, signal: both },
        deploymentName(session.name, name),
        "running_or_healthy",
      )
    ));
  } catch (error) {
    if (!late?.aborted) throw error;
    throw new SvcError("timeout", "Cannot go on: the services were not ready in time", {
      cause: error,
      help: "see `svc compose ps`; what runs is left running",
    });
  }
}

/** The services whose logs are shown. */
function shownOf({ values, positionals }: Call, session: Session) {
  const { project } = requireLoaded(session);
  const none = new Set(values.noAttach ?? []);
  const named = values.attach?.length
    ? values.attach
    : positionals.length > 0 && !values.attachDependencies
    ? positionals
    : Object.keys(project.services);
  return new Set(
    named.filter((name) => !none.has(name) && project.services[name]?.attach !== false),
  );
}

async function detached(call: Call, session: Session): Promise<number> {
  const { io, values, positionals: names } = call;
  await using progress = openProgress(call);
  using watch = new Watch(session.client);
  const report = progress.step.bind(progress);
  const { signal } = io;
  const until = values.noStart ? "created" : "started";
  const brought = { session, names, values, until, report, watch, signal } as const;
  const { services } = await bringUp(call, brought);
  if (values.wait) {
    const timeoutMs = secondsOf(values.waitTimeout, "--wait-timeout");
    await awaitServices(session, services, { watch, report, signal, timeoutMs });
  }
  return 0;
}

const BEGUN: readonly DeploymentState[] = ["pending", "pulling", "creating"];

/** Stops what was begun when an interrupt came while services were brought up. */
async function undo(call: Call, session: Session): Promise<number> {
  const { io, values } = call;
  await io.stderr.write("Gracefully stopping... (press Ctrl+C again to force)\n");
  await using progress = openProgress(call, "Stopping");
  const report = progress.step.bind(progress);
  const { client, name } = session;
  await stopHeeding(io.hurry, async (hurry) => {
    // One that was being made is as good as up: the server ends that, and then stops it.
    const states = (await projectStates(client, name)).filter(({ status, oneOff }) =>
      !oneOff && (status.instances.some(isUp) || BEGUN.includes(status.state))
    );
    const timeoutMs = hurry ? 0 : secondsOf(values.timeout, "--timeout");
    await stop(states, { client, report, timeoutMs });
  });
  return (io.signal.reason as { exitCode?: number } | undefined)?.exitCode ?? 130;
}

/** Where the lines begin that an unchanged service has not printed before the command. */
function logStart({ states }: Session, { status: { name, instances } }: ServiceState) {
  const before = states.find(({ status }) => status.name === name)?.status.instances ?? [];
  if (before.some(isUp)) return { tail: 0 };
  const end = Math.max(...before.map(({ finishedAt = "" }) => Date.parse(finishedAt) || 0));
  const start = Math.min(...instances.map(({ startedAt = "" }) => Date.parse(startedAt) || 0));
  // Last lines are read shortly after an end, first ones shortly before a start is told: between the two.
  return end > 0 ? { since: new Date((end + Math.max(end, start)) / 2) } : {};
}

/** Which ends stop all services. */
function abortOf({ abortOnExit, abortOnFailure, exitCodeFrom }: Call["values"]) {
  if (abortOnExit || exitCodeFrom !== undefined) return "exit";
  return abortOnFailure ? "failure" : "never";
}

type WatchFiles = typeof import("./watch_files.ts");

/** The result of `running`; changed files are carried over meanwhile. */
async function watchedUntil(
  running: Promise<number>,
  call: Call,
  session: Session,
  { view, rules, onBusy }: {
    view: LogView;
    rules: Awaited<ReturnType<WatchFiles["rulesOf"]>>;
    onBusy: (now: boolean) => void;
  },
): Promise<number> {
  const over = new AbortController();
  const { follow } = await import("./watch_files.ts");
  const watching = follow(betweenLines(call), session, {
    ...{ rules, onBusy },
    say: (text) => view.notice(`${view.margin}⦿ ${text}`),
    signal: AbortSignal.any([call.io.signal, over.signal]),
  });
  watching.catch((error) => view.notice(`svc: warning: ${(error as Error).message}`));
  try {
    return await running;
  } finally {
    over.abort();
    await watching.catch(() => {/* told above */});
  }
}

async function attached(call: Call, session: Session): Promise<number> {
  const { io, values, positionals: names } = call;
  const colours = !values.noColor && !call.env.NO_COLOR && isLively(values, io.stdout.isTerminal);
  const { noLogPrefix, timestamps = false } = values;
  const view = new LogView({ io, colours, prefix: !noLogPrefix, timestamps });
  const shown = shownOf(call, session);
  const rules = values.watch
    ? await (await import("./watch_files.ts")).rulesOf(session, names)
    : [];
  let busy = false;
  const following = new AttachedRun({
    ...{ project: session.name, client: session.client, io, view, shown },
    abort: abortOf(values),
    exitCodeFrom: values.exitCodeFrom,
    timeoutMs: secondsOf(values.timeout, "--timeout"),
    hooks: new Hooks(session.client, session.loaded),
    holds: () => busy,
  });
  const begun: (() => void)[] = [];
  let services: string[];
  try {
    await using progress = openProgress(call);
    // What is under way ends with an interrupt; the connection goes on.
    const client = clientFor(call, session.connection, io.signal);
    const bringing = { ...session, client, connection: { ...session.connection, client } };
    using watch = new Watch(client);
    ({ services } = await bringUp(call, {
      ...{ session: bringing, names, values, until: "started", watch, signal: io.signal },
      report: progress.step.bind(progress),
      onUp: (state, result) =>
        begun.push(() =>
          following.follow(state, result?.action === "unchanged" ? logStart(session, state) : {})
        ),
    }));
  } catch (error) {
    if (io.signal.aborted) return await undo(call, session);
    throw error;
  }
  const list = services.filter((name) => shown.has(name)).join(", ");
  if (list) view.notice(`Attaching to ${list}`);
  for (const follow of begun) follow();
  await using progress = openProgress(betweenLines(call));
  const counting = names.length > 0 ? names : services;
  const running = following.run({ services: counting, report: progress.step.bind(progress) });
  if (rules.length === 0) return await running;
  return await watchedUntil(running, call, session, { view, rules, onBusy: (now) => busy = now });
}

export async function run(call: Call): Promise<number> {
  checkFlags(call);
  const { values, io } = call;
  if (values.detach || values.wait || values.noStart) {
    return await detached(call, await openSession(call, call.positionals));
  }
  // The first interrupt stops services by the same connection.
  const leaving = new AbortController();
  const session = await openSession(
    { ...call, io: { ...io, signal: leaving.signal } },
    call.positionals,
  );
  try {
    return await attached(call, session);
  } finally {
    leaving.abort(new DOMException("the command is over", "AbortError"));
  }
}

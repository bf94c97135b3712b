/** `svc compose start|stop|restart|kill|pause|unpause|rm [SERVICE…]`. */
import type { DeploymentStatus } from "../../api/deployment.ts";
import { SvcError } from "../../base/errors.ts";
import { signalNumber } from "../../base/signals.ts";
import { powerDeployment } from "../../client/deployments.ts";
import { freezeDeployment, signalDeployment } from "../../client/workloads.ts";
import { dependenciesFirst, remove, stop as stopAll } from "../../compose/down.ts";
import { Hooks } from "../../compose/hooks.ts";
import { containersOf, isUp, type ServiceState, serviceState } from "../../compose/state.ts";
import { done, failing, type Report, working } from "../../compose/steps.ts";
import { Watch } from "../../compose/watch.ts";
import type { Invocation } from "../command.ts";
import type { NO_OPTIONS } from "../options.ts";
import type { ProjectInvocation } from "./open_project.ts";
import type {
  KILL_OPTIONS,
  RESTART_OPTIONS,
  RM_OPTIONS,
  START_OPTIONS,
  STOP_OPTIONS,
} from "./options.ts";
import { openProgress } from "./progress.ts";
import { chosen, openSession, orphansOf, secondsOf, type Session } from "./session.ts";
import { awaitServices } from "./up.ts";

/** Does one thing to each service, told by two words: "Starting", "Started". */
async function act(
  report: Report,
  state: ServiceState,
  [begin, end]: readonly [string, string],
  work: (name: string) => Promise<unknown>,
): Promise<void> {
  const ids = containersOf(state).map(({ name }) => `Container ${name}`);
  for (const id of ids) working(report, id, begin);
  await work(state.status.name).catch(failing(report, ids));
  for (const id of ids) done(report, id, end);
}

/** The chosen services. Throws where there is nothing to act on, as docker compose does. */
function required(session: Session, names: readonly string[], what: string): ServiceState[] {
  const states = chosen(session, names);
  if (states.length > 0) return states;
  throw new SvcError(
    "not_found",
    `Cannot ${what} the project ${session.name}: no container found`,
    {
      help: "`svc compose up` makes them",
    },
  );
}

/** Runs the commands that follow a start. `before`: what ran already has had them. */
async function afterStart(
  { client, loaded }: Session,
  status: DeploymentStatus,
  signal: AbortSignal,
  before?: ServiceState,
): Promise<void> {
  const state = serviceState(status);
  const ran = new Set(before?.status.instances.filter(isUp).map(({ id }) => id));
  if (!state) return;
  await new Hooks(client, loaded).afterStart(
    state,
    signal,
    ({ instance }) => !ran.has(instance.id),
  );
}

async function startOne(
  session: Session,
  name: string,
  signal: AbortSignal,
  before?: ServiceState,
): Promise<void> {
  const status = await powerDeployment(session.client, name, "start");
  await afterStart(session, status, signal, before);
}

export const start = {
  async run(call: ProjectInvocation & Invocation<typeof START_OPTIONS>): Promise<number> {
    const { values, positionals, io: { signal } } = call;
    const session = await openSession(call);
    const { client } = session;
    const states = required(session, positionals, "start");
    await using progress = openProgress(call);
    const report = progress.step.bind(progress);
    await dependenciesFirst(
      states,
      (state) =>
        act(
          report,
          state,
          ["Starting", "Started"],
          (name) => startOne(session, name, signal, state),
        ),
    );
    if (!values.wait) return 0;
    using watch = new Watch(client);
    const timeoutMs = secondsOf(values.waitTimeout, "--wait-timeout");
    const services = states.map(({ service }) => service);
    await awaitServices(session, services, { watch, report, signal, timeoutMs });
    return 0;
  },
};

export const stop = {
  async run(call: ProjectInvocation & Invocation<typeof STOP_OPTIONS>): Promise<number> {
    const { values, positionals } = call;
    const session = await openSession(call);
    const states = chosen(session, positionals).filter(({ status }) => status.state !== "stopped");
    await using progress = openProgress(call);
    const report = progress.step.bind(progress);
    const timeoutMs = secondsOf(values.timeout, "--timeout");
    const { client, loaded } = session;
    await stopAll(states, { client, report, timeoutMs, hooks: new Hooks(client, loaded) });
    return 0;
  },
};

export const restart = {
  async run(call: ProjectInvocation & Invocation<typeof RESTART_OPTIONS>): Promise<number> {
    const { values, positionals, io: { signal } } = call;
    const session = await openSession(call);
    const { client } = session;
    const named = required(session, positionals, "restart");
    // Those with `depends_on … restart: true` on one of them follow.
    const services = session.loaded?.project.services ?? {};
    const follow = values.noDeps
      ? []
      : chosen(session, []).filter((state) =>
        !named.includes(state) &&
        Object.entries(services[state.service]?.depends_on ?? {}).some(([other, { restart }]) =>
          restart && named.some(({ service }) => service === other)
        )
      );
    await using progress = openProgress(call, "Restarting");
    const report = progress.step.bind(progress);
    const timeoutMs = secondsOf(values.timeout, "--timeout");
    await dependenciesFirst(
      [...named, ...follow],
      (state) =>
        act(report, state, ["Restarting", "Started"], async (name) => {
          const hooks = new Hooks(client, session.loaded);
          if (timeoutMs === undefined) {
            await hooks.beforeStop(state, report);
            await afterStart(session, await powerDeployment(client, name, "restart"), signal);
          } else {
            await stopAll([state], { client, report: () => {}, timeoutMs, hooks });
            await startOne(session, name, signal);
          }
        }),
    );
    return 0;
  },
};

export const kill = {
  async run(call: ProjectInvocation & Invocation<typeof KILL_OPTIONS>): Promise<number> {
    const { values: { signal, removeOrphans }, positionals } = call;
    if (signalNumber(signal) === undefined) {
      throw new SvcError("usage", `Cannot read --signal ${JSON.stringify(signal)}: there is none`, {
        help: "name one, such as HUP, SIGHUP or 1",
      });
    }
    const session = await openSession(call);
    const { client } = session;
    const states = required(session, positionals, "kill").filter(({ status }) =>
      status.instances.some(isUp)
    );
    await using progress = openProgress(call);
    const report = progress.step.bind(progress);
    await Promise.all(
      states.map((state) =>
        act(report, state, ["Killing", "Killed"], async (name) => {
          // As docker has it: what is killed stays so, whatever its restart policy says.
          if (signalNumber(signal) !== 9) return await signalDeployment(client, name, signal);
          await stopAll([state], { client, report: () => {}, timeoutMs: 0 });
        })
      ),
    );
    if (removeOrphans) await remove(orphansOf(session), { client, report });
    return 0;
  },
};

function freezes(what: "pause" | "unpause", words: readonly [string, string]) {
  return {
    async run(call: ProjectInvocation & Invocation<typeof NO_OPTIONS>): Promise<number> {
      const session = await openSession(call);
      const { client } = session;
      const states = required(session, call.positionals, what);
      await using progress = openProgress(call);
      const report = progress.step.bind(progress);
      await Promise.all(
        states.map((state) =>
          act(report, state, words, (name) => freezeDeployment(client, name, what))
        ),
      );
      return 0;
    },
  };
}

export const pause = freezes("pause", ["Pausing", "Paused"]);
export const unpause = freezes("unpause", ["Unpausing", "Unpaused"]);

/** Whether the person agrees. Throws `usage` where nobody can be asked. */
async function agreed({ io, env }: ProjectInvocation, names: readonly string[]): Promise<boolean> {
  const { terminalPrompt } = await import("../prompt.ts");
  const answer = await terminalPrompt(io, env).confirm(
    `Going to remove ${names.join(", ")}. Are you sure?`,
  );
  if (answer !== undefined) return answer;
  throw new SvcError("usage", "Cannot ask whether to remove: there is no terminal", {
    help: "write --force",
  });
}

export const rm = {
  async run(call: ProjectInvocation & Invocation<typeof RM_OPTIONS>): Promise<number> {
    const { values, positionals, io } = call;
    const session = await openSession(call);
    const states = chosen(session, positionals, { oneOff: positionals.length === 0 })
      .filter(({ status }) => values.stop || !status.instances.some(isUp));
    if (states.length === 0) {
      await io.stderr.write("No stopped containers\n");
      return 0;
    }
    const names = states.flatMap(containersOf).map(({ name }) => name);
    if (!values.force && !await agreed(call, names)) return 0;
    await using progress = openProgress(call);
    await remove(states, { client: session.client, report: progress.step.bind(progress) });
    return 0;
  },
};

/** Stops and removes services, those first that others do not need. */
import { SvcError } from "../base/errors.ts";
import type { Client } from "../client/client.ts";
import { deleteDeployment, powerDeployment } from "../client/deployments.ts";
import { signalDeployment } from "../client/workloads.ts";
import type { Hooks } from "./hooks.ts";
import { inOrder, type Needs, reversed } from "./order.ts";
import { containersOf, isUp, type ServiceState } from "./state.ts";
import { done, failing, type Report, working } from "./steps.ts";

export interface Stopping {
  client: Client;
  report: Report;
  /** Milliseconds until what has not ended is killed; absent: as each service says. */
  timeoutMs?: number;
  /** Commands before each stop; none where there is no time for them. */
  hooks?: Hooks;
}

/** What each of these was started after. Several deployments of one service (`run`) count as one another. */
function needsOfStates(states: readonly ServiceState[]): Needs {
  const names = (service: string) =>
    states.filter((one) => one.service === service && !one.oneOff).map(({ status }) => status.name);
  return new Map(
    states.map(({ status, dependsOn }) => [
      status.name,
      new Set(dependsOn.flatMap(names).filter((name) => name !== status.name)),
    ]),
  );
}

type EachState = (
  states: readonly ServiceState[],
  work: (state: ServiceState) => Promise<void>,
) => Promise<void>;

/** Does the work of each in its order; a circle in labels is no reason not to stop. */
const ordered = (turned: (needs: Needs) => Needs): EachState => async (states, work) => {
  const byName = new Map(states.map((state) => [state.status.name, state]));
  await inOrder(acyclic(turned(needsOfStates(states))), (name) => work(byName.get(name)!));
};

const dependentsFirst = ordered(reversed);
export const dependenciesFirst = ordered((needs) => needs);

/** Leaves out needs that would wait for each other: labels are of no checked project. */
function acyclic(needs: Needs): Needs {
  const kept = new Map<string, Set<string>>([...needs.keys()].map((name) => [name, new Set()]));
  const reaches = (from: string, to: string): boolean => {
    const seen = new Set<string>();
    const left = [from];
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      if (name === to) return true;
      if (seen.has(name)) continue;
      seen.add(name);
      left.push(...kept.get(name) ?? []);
    }
    return false;
  };
  for (const [name, after] of needs) {
    for (const other of after) {
      if (kept.has(other) && !reaches(other, name)) kept.get(name)!.add(other);
    }
  }
  return kept;
}

const unlessGone = (error: unknown) => {
  if (!(error instanceof SvcError) || error.code !== "not_found") throw error;
};

/** Runs the commands before a stop, then the work; meanwhile kills what is left of the deployment after the time. */
async function ending(
  { client, timeoutMs, hooks, report }: Stopping,
  state: ServiceState,
  work: (client: Client, name: string) => Promise<unknown>,
): Promise<void> {
  const { name } = state.status;
  if (timeoutMs !== 0) await hooks?.beforeStop(state, report);
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => {
    signalDeployment(client, name, "KILL").catch(() => {/* it has ended meanwhile */});
  }, timeoutMs);
  const ids = containersOf(state).map(({ name }) => `Container ${name}`);
  await work(client, name).catch(unlessGone).catch(failing(report, ids))
    .finally(() => clearTimeout(timer));
}

/** Stops the services that run. */
export async function stop(states: readonly ServiceState[], options: Stopping): Promise<void> {
  const { report } = options;
  await dependentsFirst(states, async (state) => {
    const ids = containersOf(state).map(({ name }) => `Container ${name}`);
    for (const id of ids) working(report, id, "Stopping");
    await ending(options, state, (client, name) => powerDeployment(client, name, "stop"));
    for (const id of ids) done(report, id, "Stopped");
  });
}

/** Stops the services and removes their deployments. */
export async function remove(states: readonly ServiceState[], options: Stopping): Promise<void> {
  const { report } = options;
  await dependentsFirst(states, async (state) => {
    const all = containersOf(state);
    for (const { name, instance } of all) {
      working(report, `Container ${name}`, isUp(instance) ? "Stopping" : "Removing");
    }
    await ending(options, state, deleteDeployment);
    for (const { name, instance } of all) {
      if (isUp(instance)) done(report, `Container ${name}`, "Stopped");
      done(report, `Container ${name}`, "Removed");
    }
  });
}

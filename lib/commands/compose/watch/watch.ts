/** Follows the rules of `develop.watch` while files change. */
import { asSvcError } from "../../../base/errors.ts";
import { sleep } from "../../../base/sleep.ts";
import { powerDeployment } from "../../../client/deployments.ts";
import { Hooks, runHook } from "../../../compose/hooks.ts";
import { projectStates, type ServiceState, serviceState } from "../../../compose/state.ts";
import type { Session } from "../session.ts";
import { Changes } from "./changes.ts";
import { type Watched, watchedPaths } from "./rules.ts";
import { passes, runningOf, syncPaths } from "./sync.ts";

/** Milliseconds before what failed for a passing reason is tried again. */
const AGAIN_MS = 1000;

export interface Watching {
  session: Session;
  rules: readonly Watched[];
  /** Tells what is done: "Watch enabled". */
  say: (text: string) => void;
  warn: (text: string) => void;
  /** Builds the services' images and replaces their containers. */
  rebuild: (services: string[]) => Promise<void>;
  /** Called before and after containers are stopped and started. */
  onBusy?: (busy: boolean) => void;
  signal: AbortSignal;
}

const list = (names: Iterable<string>) => `[${[...names].map((one) => `"${one}"`).join(" ")}]`;

/** Those that are folders now: what was made in a new one before it was watched is found by a look into it. */
async function foldersOf(paths: readonly string[]): Promise<Set<string>> {
  const infos = await Promise.all(
    paths.map((path) => Deno.lstat(path).catch(() => undefined)),
  );
  return new Set(paths.filter((_, index) => infos[index]?.isDirectory));
}

class Follower {
  readonly #options: Watching;

  constructor(options: Watching) {
    this.#options = options;
  }

  async #states(): Promise<ServiceState[]> {
    const { session: { client, name } } = this.#options;
    return (await projectStates(client, name)).filter(({ oneOff }) => !oneOff);
  }

  async #sync(watched: Watched, paths: readonly string[], states: readonly ServiceState[]) {
    const { session: { client }, warn, signal } = this.#options;
    const { rule: { action, exec }, service } = watched;
    const of = states.filter((state) => state.service === service);
    for (const state of of) await syncPaths(watched, paths, { client, state, warn, signal });
    if (action !== "sync+exec" || !exec) return;
    for (const container of of.flatMap(runningOf)) {
      await runHook(client, container, exec, { what: "develop.watch.exec", signal });
    }
  }

  async #restart(services: ReadonlySet<string>, states: readonly ServiceState[]) {
    const { session: { client, loaded }, say, signal } = this.#options;
    if (services.size === 0) return;
    const hooks = new Hooks(client, loaded);
    await Promise.all(
      states.filter(({ service }) => services.has(service)).map(async (state) => {
        const after = serviceState(await powerDeployment(client, state.status.name, "restart"));
        if (after) await hooks.afterStart(after, signal);
      }),
    );
    say(`service(s) ${list(services)} restarted`);
  }

  /** Does what the rules say of these paths. Throws what calls throw. */
  async handle(paths: readonly string[]): Promise<void> {
    const { rules, rebuild, say } = this.#options;
    const folders = await foldersOf(paths);
    const hit = rules.map((watched) => ({
      watched,
      own: paths.filter((path) => watched.wants(path, folders.has(path))),
    })).filter(({ own }) => own.length > 0);
    const named = (...actions: string[]) =>
      new Set(
        hit.filter(({ watched: { rule } }) => actions.includes(rule.action))
          .map(({ watched: { service } }) => service),
      );
    const rebuilt = named("rebuild");
    if (rebuilt.size > 0) {
      say(`Rebuilding service(s) ${list(rebuilt)} after changes were detected...`);
      await rebuild([...rebuilt]);
      say(`service(s) ${list(rebuilt)} successfully built`);
    }
    // A container that was just made anew has the files of its image, and has been started.
    const rest = hit.filter(({ watched: { service } }) => !rebuilt.has(service));
    const states = rest.length > 0 ? await this.#states() : [];
    for (const { watched, own } of rest) {
      if (!watched.rule.action.startsWith("sync")) continue;
      const count = own.length;
      say(`Syncing service "${watched.service}" after ${count} changes were detected`);
      await this.#sync(watched, own, states);
    }
    const restarted = named("restart", "sync+restart");
    for (const service of rebuilt) restarted.delete(service);
    await this.#restart(restarted, states);
  }

  /** The files of the rules that ask for it, as they are now. */
  async initial(): Promise<void> {
    const { rules } = this.#options;
    const first = rules.filter(({ rule }) => rule.initial_sync && rule.action.startsWith("sync"));
    const states = first.length > 0 ? await this.#states() : [];
    for (const watched of first) await this.#sync(watched, [watched.root], states);
  }
}

/** Watches until the signal. Throws where watching itself fails; what fails of a change is told. */
export async function watchProject(options: Watching): Promise<void> {
  const { rules, say, warn, signal } = options;
  using changes = new Changes(watchedPaths(rules));
  const leave = () => changes[Symbol.dispose]();
  signal.addEventListener("abort", leave, { once: true });
  try {
    const follower = new Follower(options);
    await follower.initial();
    say("Watch enabled");
    for (;;) {
      signal.throwIfAborted();
      const batch = await changes.next();
      if (!batch) return;
      try {
        options.onBusy?.(true);
        await follower.handle(batch).finally(() => options.onBusy?.(false));
      } catch (error) {
        if (signal.aborted) return;
        const again = passes(error);
        const known = asSvcError(error);
        warn(`${known.message}${again ? "; it is tried again" : ""}`);
        if (!again) continue;
        await sleep(AGAIN_MS, signal).catch(() => {/* asked for above */});
        changes.add(batch);
      }
    }
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

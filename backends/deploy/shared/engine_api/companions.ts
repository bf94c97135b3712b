/**
 * The companions of instances: a caretaker in a container of its own, in the network namespace of its instance. It is
 * made with the instance, follows it through every restart, and goes with it.
 */
import { SvcError } from "../../../../lib/base/errors.ts";
import { sha256 } from "../../../../lib/base/hash.ts";
import { type Lazy, lazy } from "../../../../lib/base/lazy.ts";
import type { Logger } from "../../../../lib/base/log.ts";
import { KeyedMutex } from "../../../../lib/base/mutex.ts";
import { sleep } from "../../../../lib/base/sleep.ts";
import type { AttachedMount, CompanionPlan } from "../../../../lib/deploy/backend.ts";
import type { CaredFor, Caretakers, Roles } from "../../../../lib/deploy/caretakers.ts";
import {
  ATTACH_MS,
  type CompanionOptions,
  companionWith,
  forwardedAgent,
  notAttached,
  rolesOfAll,
} from "../../../../lib/deploy/companions.ts";
import type { Duplex } from "../../../../lib/wire/duplex.ts";
import type { Deployment } from "./deployment.ts";
import type { CompanionCalls, CompanionState } from "./engine.ts";
import { followRuns } from "./follow.ts";
import type { EngineImage } from "./images.ts";
import { type Inspected, isActive, isReady, runs } from "./inspect.ts";
import { FILES } from "./labels.ts";
import { instanceId, type InstanceRecord } from "./record.ts";
import type { EngineWatch } from "./watch.ts";

/** Milliseconds between two looks at a companion that is not attached yet. */
const LOOK_MS = 500;

export type { CompanionOptions };

export interface CompanionsParts extends CompanionOptions {
  calls: CompanionCalls;
  watch: EngineWatch;
  /** The engine's image of a name. */
  findImage: (name: string) => Promise<EngineImage>;
  log: Logger;
}

/** What a companion is made of. */
interface Wanted {
  image: EngineImage;
  env: Record<string, string>;
  config: string;
}

/** Of the companion that mounts files for an instance. */
const filesOf = (key: string) => `${key}${FILES}`;

const ofInstance = (
  deployment: string,
  { key, replica }: Pick<InstanceRecord, "key" | "replica">,
): CaredFor => ({
  ...{ key, deployment },
  instance: instanceId(deployment, replica),
});

const accompanied = (deployment: string, { key, replica, roles }: InstanceRecord) => ({
  ...{ key, roles },
  id: instanceId(deployment, replica),
});

export class Companions {
  readonly #parts: CompanionsParts;
  readonly #locks = new KeyedMutex();
  #image: Lazy<EngineImage>;
  /** Counts the connections, so that replicas take turns. */
  #turn = 0;

  constructor(parts: CompanionsParts) {
    this.#parts = parts;
    this.#image = lazy(() => parts.findImage(parts.caretakers.requireImage("make a companion")));
  }

  get always(): boolean {
    return this.#parts.always;
  }

  /** True where they mount the callers' own files. */
  get mounts(): boolean {
    return this.#parts.always && this.#parts.calls.mount !== undefined;
  }

  /** What a deployment's instances have beside them. Throws `prerequisite_missing` before anything is made. */
  plan(deployment: string, plan?: CompanionPlan): Pick<InstanceRecord, "roles" | "mounting"> {
    const { always, caretakers, calls: { folder } } = this.#parts;
    const { mount, ...asked } = plan?.roles ?? {};
    const roles = { ...always && rolesOfAll(folder), ...asked as Roles };
    const some = Object.keys(roles).length > 0;
    if (some || mount) caretakers.requireImage(`deploy ${deployment}`);
    return {
      ...some && { roles },
      ...mount !== undefined && { mounting: { roles: { mount }, mounts: plan?.mounts } },
    };
  }

  /** Has what the instance gets mounted: on the engine's host once this resolves. Throws as {@linkcode begin}. */
  async mount(
    deployment: string,
    { key, replica, mounting }: InstanceRecord,
    signal?: AbortSignal,
  ): Promise<AttachedMount[]> {
    const { calls, caretakers } = this.#parts;
    if (!mounting || !calls.mount) return [];
    const of = { ...ofInstance(deployment, { key, replica }), key: filesOf(key) };
    caretakers.expect(of);
    const wanted = await this.#wanted(of, mounting.roles as Roles);
    const folder = await calls.mount({ of, ...wanted });
    await this.#attached(of, signal);
    return (mounting.mounts ?? []).map((one) => ({ ...one, source: `${folder}/${one.source}` }));
  }

  /** The caretakers of these instances may attach: for those of an earlier server. */
  expect({ name, record }: Deployment): void {
    for (const one of record.instances) {
      if (one.roles) this.#parts.caretakers.expect(ofInstance(name, one));
    }
  }

  /** Before the instance's container is made; gives the volume that it shares. */
  async prepare(deployment: string, instance: InstanceRecord): Promise<string> {
    const of = ofInstance(deployment, instance);
    this.#parts.caretakers.expect(of);
    return await this.#parts.calls.prepare(of);
  }

  /**
   * Once the instance runs: resolves when its companion serves. Throws `deploy_failed` with the role that did not start,
   * or with what the companion said last.
   */
  async begin(deployment: string, instance: InstanceRecord, signal?: AbortSignal): Promise<void> {
    if (!instance.roles || !await this.#follow(deployment, instance)) return;
    await this.#attached(ofInstance(deployment, instance), signal);
  }

  /** Resolves when the companion serves. */
  async #attached(of: CaredFor, signal?: AbortSignal): Promise<void> {
    const over = new AbortController();
    const both = signal ? AbortSignal.any([signal, over.signal]) : over.signal;
    try {
      await Promise.race([
        this.#parts.caretakers.started(of.key, both),
        this.#fails(of, both),
      ]);
    } finally {
      over.abort();
    }
  }

  /** Throws `deploy_failed` when the companion has ended, or has not attached in time. */
  async #fails({ key, deployment, instance }: CaredFor, signal: AbortSignal): Promise<void> {
    const { calls } = this.#parts;
    for (const until = performance.now() + ATTACH_MS; performance.now() < until;) {
      await sleep(LOOK_MS, signal);
      const found = await calls.look(key);
      if (!found?.running || found.restarts > 0) break;
    }
    // A report of its own says more than its end.
    await sleep(LOOK_MS, signal);
    const words = await calls.lastWords(key).catch(() => "");
    signal.throwIfAborted();
    throw notAttached(deployment, instance, words);
  }

  async #wanted(of: CaredFor, roles: Roles): Promise<Wanted> {
    const image = await this.#image.get().catch((error) => {
      this.#image = lazy(() =>
        this.#parts.findImage(this.#parts.caretakers.requireImage("make a companion"))
      );
      throw error;
    });
    const env = this.#parts.caretakers.environment(of, roles);
    return { image, env, config: await sha256(JSON.stringify([image.id, env])) };
  }

  /** Brings the companion to where its instance is. False: the instance does not run. */
  #follow(deployment: string, instance: InstanceRecord): Promise<boolean> {
    const { key, container, roles } = instance;
    return this.#locks.run(key, async () => {
      const { calls, watch } = this.#parts;
      const [found, there] = await Promise.all([watch.look(container), calls.look(key)]);
      if (!found || !runs(found)) {
        if (there?.running) await calls.stop(key);
        return false;
      }
      const of = ofInstance(deployment, instance);
      const wanted = await this.#wanted(of, roles!);
      if (there?.config !== wanted.config) {
        if (there) await calls.remove(key);
        await calls.create({ of, container, ...wanted });
      }
      if (there?.config !== wanted.config || isBehind(there, found)) await calls.restart(key);
      return true;
    });
  }

  /**
   * Removes the companions of instances that are gone, and brings the others to where their instances are. The caller
   * holds the deployment's lock.
   */
  async settle(name: string, instances: readonly InstanceRecord[]): Promise<void> {
    const { calls, caretakers, log } = this.#parts;
    try {
      const cared = instances.filter(({ roles }) => roles);
      for (const key of await calls.list(name)) {
        if (cared.some((one) => one.key === key)) continue;
        if (instances.some((one) => one.mounting && filesOf(one.key) === key)) continue;
        caretakers.forget(key);
        await calls.remove(key, true);
      }
      await Promise.all(cared.map((one) => this.#follow(name, one)));
    } catch (error) {
      log.warn("the companions of a deployment were not looked after", { deployment: name, error });
    }
  }

  /** Has companions follow the restarts that the engine, or somebody else, makes. Ends with the watch. */
  watch(
    instanceOf: (deployment: string, container: string) => InstanceRecord | undefined,
  ): Promise<void> {
    const { watch, log } = this.#parts;
    return followRuns(watch, ({ deployment, container }) => {
      const instance = instanceOf(deployment, container);
      if (!instance?.roles) return;
      this.#follow(deployment, instance).catch((error) =>
        log.warn("a companion did not follow its instance", { deployment, error })
      );
    });
  }

  serves(key: string): boolean {
    return this.#parts.caretakers.serves(key);
  }

  /** See {@linkcode DeployBackend.dial}. */
  async dial(
    { name, instances }: Deployment,
    port: number,
    protocol: "tcp" | "udp",
    signal?: AbortSignal,
  ): Promise<Duplex> {
    const running = instances.filter(({ found }) => found && runs(found));
    if (running.length === 0) {
      const soon = instances.some(({ found }) => found && isActive(found));
      const why = soon ? "it is about to be restarted" : "no instance runs";
      throw new SvcError("conflict", `Cannot connect to deployment ${name}: ${why}`, {
        help: "start the deployment first",
      });
    }
    const ready = running.filter(({ found }) => isReady(found!));
    const chosen = ready.length > 0 ? ready : running;
    const { instance } = chosen[this.#turn++ % chosen.length];
    const key = companionWith(accompanied(name, instance), "portForward");
    return await this.#parts.caretakers.dial(key, port, protocol, signal);
  }

  /** See the ability `agent`. */
  async agent(deployment: string, instance: InstanceRecord, options: {
    connect: Parameters<Caretakers["forwardAgent"]>[1];
    signal?: AbortSignal;
  }) {
    return await forwardedAgent(
      this.#parts.caretakers,
      accompanied(deployment, instance),
      options,
    );
  }
}

/** True where the companion does not run, or is in the namespace of an earlier run of its instance. */
function isBehind(there: CompanionState, { State }: Inspected): boolean {
  return !there.running || Date.parse(there.startedAt) < Date.parse(State.StartedAt);
}

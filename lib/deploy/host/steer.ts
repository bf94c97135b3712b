/** Creates, freezes, thaws and stops the container of an instance, and tells the engine whether it goes on without a server. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { SIGKILL, signalNumber, SIGTERM } from "../../base/signals.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { restartRule } from "../amended.ts";
import type { Bundles } from "./bundle.ts";
import type { ContainerPlan } from "../container_config.ts";
import type { ContainerEngine, ProcessIdentity } from "./engine.ts";
import type { InstanceParts } from "./instance_parts.ts";
import type { Life } from "./life.ts";
import type { MadeRecord } from "./record.ts";
import { secretVariables } from "./secret_env.ts";
import { within } from "./within.ts";

/** Milliseconds that a killed container may take to end. */
const KILL_PATIENCE = 10_000;

/** The instance, whose lock the caller holds. */
export interface Steered {
  id: string;
  key: string;
  spec: DeploySpec;
  /** Throws `denied` where the policy permits no further start. */
  permitted: () => Promise<void>;
  engine: Pick<ContainerEngine, "freeze" | "signal" | "supervise" | "update">;
  life: Life;
  /** Writes the instance's record. */
  save: () => Promise<void>;
  log: Logger;
}

/** Creates the container from its bundle; the binds of the spec are checked and placed at each time. */
export async function createContainer(
  { binds, engine }: Pick<InstanceParts, "binds" | "engine">,
  { bundle, deployment, made: { key, replica, secretEnv }, spec }: {
    bundle: string;
    deployment: string;
    made: Pick<MadeRecord, "key" | "replica" | "secretEnv">;
    spec: DeploySpec;
  },
): Promise<ProcessIdentity> {
  const { image, tty, stdinOpen, labels: ofSpec } = spec;
  const sources = await binds.place(key, spec);
  const labels = { deployment, replica, ofSpec };
  try {
    await using _variables = await secretVariables(bundle, secretEnv);
    return await engine.create({ key, bundle, tty, stdinOpen, image, labels });
  } finally {
    // An engine that starts it again by itself needs them again.
    if (!engine.supervise) await sources[Symbol.asyncDispose]();
  }
}

/** Idempotent. Throws `conflict` where the instance does not run. */
export async function freeze(instance: Steered, frozen: boolean): Promise<void> {
  const { id, key, engine, life, save } = instance;
  if (!life.run) {
    const attempted = `Cannot ${frozen ? "pause" : "unpause"} ${id}`;
    throw new SvcError("conflict", `${attempted}: it is not running`, {
      help: "start the deployment first",
    });
  }
  if (life.run.paused === frozen) return;
  if (!frozen) await engine.freeze(key, false);
  life.froze(frozen);
  // On record before it is done: a later server has to know what it finds frozen.
  await save();
  await entrust(instance);
  if (!frozen) return;
  try {
    await engine.freeze(key, true);
  } catch (error) {
    life.froze(false);
    await save();
    await entrust(instance);
    throw error;
  }
}

/** Has the bounds and the restart policy be those of the changed spec, now and at the next start. */
export async function amend(
  steered: Steered,
  spec: DeploySpec,
  bundles: Pick<Bundles, "bind" | "boundsOf">,
): Promise<void> {
  const { key, spec: before, engine, life, id, log } = steered;
  const bounds = await bundles.boundsOf(spec);
  // What was not asked for may be refused, such as less memory than is used by now.
  if (JSON.stringify(before.resources) !== JSON.stringify(spec.resources)) {
    if (life.run) await engine.update(key, bounds);
    await bundles.bind(key, bounds);
  }
  life.follow(restartRule(spec));
  if (spec.restart !== "no") return await entrust({ ...steered, spec });
  if (before.restart === "no") return;
  await engine.supervise?.(key, undefined).catch((error) =>
    log.warn("the engine was not told of the restart policy", { instance: id, error })
  );
}

/**
 * Tells the engine whether it has to keep the container running while no server runs. Not a frozen one: engines
 * may take it for one that has ended.
 */
export async function entrust(
  { id, key, spec, permitted, engine, life, log }: Steered,
): Promise<void> {
  const { restart: policy, restartMaxAttempts: maxAttempts, tty } = spec;
  if (!engine.supervise || policy === "no") return;
  const { is, mode } = { mode: undefined, ...life.state };
  // On trial nothing has been decided, and while it waits for a restart nothing has changed.
  if (is === "made" || is === "waiting" || mode === "trial") return;
  const kept = mode === "kept" && !life.run?.paused &&
    await permitted().then(() => true, () => false);
  await engine.supervise(key, kept ? { policy, maxAttempts, tty } : undefined).catch((error) =>
    log.warn("the engine was not told of the restart policy", { instance: id, error })
  );
}

/** Lets a frozen instance go on before it is to end: nothing ends while it is frozen, not even by SIGKILL. */
export async function thaw(instance: Steered): Promise<void> {
  if (!instance.life.run?.paused) return;
  await freeze(instance, false).catch((error) =>
    instance.log.warn("a paused instance was not thawed", { instance: instance.id, error })
  );
}

/** Stops the run, if there is one: the stop signal, then SIGKILL after the grace period. Throws `timeout`. */
export async function stopRun(
  instance: Steered,
  { stopSignal, stopGrace }: Pick<ContainerPlan, "stopSignal" | "stopGrace">,
): Promise<void> {
  const { id, key, engine, life, log } = instance;
  const ended = life.run?.ended.promise.then(() => true);
  if (!ended) return;
  await thaw(instance);
  try {
    // Records of older versions may hold a signal that does not exist.
    await engine.signal(key, signalNumber(stopSignal) ?? SIGTERM);
    if (await within(ended, stopGrace)) return;
  } catch (error) {
    log.warn("a stop signal was not sent", { instance: id, error });
  }
  await engine.signal(key, SIGKILL, { all: true });
  if (await within(ended, KILL_PATIENCE)) return;
  throw new SvcError("timeout", `Cannot stop ${id}: it does not end after SIGKILL`);
}

/** Waits until an instance can be relied on, and until its last requests are answered. */
import { inFlight, listenedOn, type SocketPort } from "../../runtime/listening.ts";
import { failure } from "../failure.ts";
import type { Instance } from "./instance.ts";
import { isAlive } from "./process.ts";
import { within } from "./within.ts";

/** How soon an abort is noticed, in milliseconds. */
const SIGNAL_MS = 250;
/** Milliseconds between looks at its sockets: for a first instance, and while another one still answers. */
const LISTEN_MS = 3;
const TAKE_OVER_MS = 25;
/** Milliseconds between looks at its connections before it ends. */
const DRAIN_MS = 50;

/**
 * Milliseconds that a first instance without a health check has to run to count as up. An instance that listens
 * on its published ports is up at once.
 */
export const FIRST_WINDOW = 100;

export interface Trial {
  /** Milliseconds that an instance without a health check has to run. */
  window: number;
  /** The instance is up earlier where it listens on all TCP ports that it publishes. */
  orListening?: boolean;
  /** Ports that it also has to listen on, and the milliseconds it has for them. */
  takesOver?: readonly SocketPort[];
  limit?: number;
  signal?: AbortSignal;
}

async function notListening(
  { life: { run } }: Instance,
  ports: readonly SocketPort[],
): Promise<SocketPort[]> {
  if (ports.length === 0) return [];
  const open = run ? await listenedOn(run.process.pid, ports) : [];
  return ports.filter((port) => !open.includes(port));
}

/** The error text for an instance that does not listen in time. */
function silence(ports: readonly SocketPort[], ms: number): string {
  const list = ports.map(({ container, protocol }) => `${container}/${protocol}`).join(", ");
  return `does not listen on ${list} after ${
    Math.round(ms / 1000)
  } s, where the one before it answers`;
}

/** Milliseconds until the next look; undefined: the instance is up. Throws where it has failed. */
async function look(instance: Instance, ran: number, trial: Trial): Promise<number | undefined> {
  const { window, orListening, takesOver = [], limit = 0 } = trial;
  const { life: { run, end } } = instance;
  if (!run) {
    const { code, message } = end ?? {};
    const { restart } = instance.spec;
    if (code === 0 && (restart === "no" || restart === "on-failure")) return undefined;
    throw await failure(instance, `exited with code ${code}${message ? ` (${message})` : ""}`);
  }
  const { health } = run;
  if (health?.state === "healthy") return undefined;
  if (health?.state === "unhealthy") {
    throw await failure(instance, `is unhealthy: its last health check ${health.lastFailure}`);
  }
  if (health) return SIGNAL_MS;
  // It has ended, which is about to be told.
  if (!await isAlive(run.process)) return SIGNAL_MS;
  const missing = await notListening(instance, takesOver);
  if (ran >= window && missing.length === 0) return undefined;
  if (ran >= Math.max(window, limit)) throw await failure(instance, silence(missing, ran));
  if (missing.length > 0) return TAKE_OVER_MS;
  const left = Math.min(window - ran, SIGNAL_MS);
  const published = instance.made.ports.filter(({ protocol }) => protocol === "tcp");
  if (!orListening || published.length === 0) return left;
  return (await notListening(instance, published)).length === 0
    ? undefined
    : Math.min(left, LISTEN_MS);
}

/**
 * Waits until the instance is healthy or, without a health check, up by the other rules. Throws `deploy_failed`
 * with the last log lines. A task that ended with 0 and is not to be restarted counts as settled.
 */
export async function settled(instance: Instance, trial: Trial): Promise<void> {
  const began = performance.now();
  for (;;) {
    trial.signal?.throwIfAborted();
    const changed = instance.changed();
    const wait = await look(instance, performance.now() - began, trial);
    if (wait === undefined) return;
    // Waits in short steps, to notice an abort.
    await within(changed, wait);
  }
}

/**
 * Waits, at most for the time of a stop, until the instance has answered all its requests. No new request may
 * reach it meanwhile.
 */
export async function drained(instance: Instance): Promise<void> {
  const { plan: { stopGrace }, choice } = instance.made;
  // On the host's network, connections cannot be attributed to an instance.
  if (choice.kind !== "bridges") return;
  const until = performance.now() + stopGrace;
  for (let idle = 0; performance.now() < until;) {
    const { run } = instance.life;
    // A paused one answers nobody.
    if (!run || run.paused) return;
    // Looks twice: a connection may have been on its way.
    idle = await inFlight(run.process.pid) > 0 ? 0 : idle + 1;
    if (idle === 2) return;
    await within(instance.changed(), DRAIN_MS);
  }
}

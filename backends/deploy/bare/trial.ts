/** Waiting for an instance: until it may be relied on, and until nobody relies on it any more. */
import { inFlight, listenedOn, type SocketPort } from "../../../lib/runtime/listening.ts";
import { failure } from "./failure.ts";
import type { Instance } from "./instance.ts";
import { within } from "./within.ts";

/** How soon an abort is noticed. */
const SIGNAL_MS = 250;
/** How often its sockets are looked at: where it is the first, and where another one still answers. */
const LISTEN_MS = 3;
const TAKE_OVER_MS = 25;
/** How often connections to it are looked at before it ends. */
const DRAIN_MS = 50;

export interface Trial {
  /** Milliseconds that one without a health check has to run. */
  window: number;
  /** It is up earlier where it listens on all TCP ports it publishes. */
  orListening?: boolean;
  /** Ports it has to listen on besides, and the milliseconds after which it will not. */
  takesOver?: readonly SocketPort[];
  limit?: number;
  signal?: AbortSignal;
}

async function notListening(
  { record: { process } }: Instance,
  ports: readonly SocketPort[],
): Promise<SocketPort[]> {
  if (ports.length === 0) return [];
  const open = process ? await listenedOn(process.pid, ports) : [];
  return ports.filter((port) => !open.includes(port));
}

/** What is said of one that does not come to listen. */
function silence(ports: readonly SocketPort[], ms: number): string {
  const list = ports.map(({ container, protocol }) => `${container}/${protocol}`).join(", ");
  return `does not listen on ${list} after ${
    Math.round(ms / 1000)
  } s, where the one before it answers`;
}

/** How long to wait for a next look; undefined: it is up. Throws where it will not be. */
async function look(instance: Instance, ran: number, trial: Trial): Promise<number | undefined> {
  const { window, orListening, takesOver = [], limit = 0 } = trial;
  if (!instance.running) {
    const { lastCode: code, spec: { restart }, record: { message } } = instance;
    if (code === 0 && (restart === "no" || restart === "on-failure")) return undefined;
    throw await failure(instance, `exited with code ${code}${message ? ` (${message})` : ""}`);
  }
  const { health } = instance;
  if (health?.state === "healthy") return undefined;
  if (health?.state === "unhealthy") {
    throw await failure(instance, `is unhealthy: its last health check ${health.lastFailure}`);
  }
  if (health) return SIGNAL_MS;
  const missing = await notListening(instance, takesOver);
  if (ran >= window && missing.length === 0) return undefined;
  if (ran >= Math.max(window, limit)) throw await failure(instance, silence(missing, ran));
  if (missing.length > 0) return TAKE_OVER_MS;
  const left = Math.min(window - ran, SIGNAL_MS);
  const published = instance.record.ports.filter(({ protocol }) => protocol === "tcp");
  if (!orListening || published.length === 0) return left;
  return (await notListening(instance, published)).length === 0
    ? undefined
    : Math.min(left, LISTEN_MS);
}

/**
 * Waits until it is healthy, or where it has no health check until it is up by the other rules. Throws
 * `deploy_failed` with the last log lines. A task that ended with 0 and is not to be restarted is fine.
 */
export async function settled(instance: Instance, trial: Trial): Promise<void> {
  const began = Date.now();
  for (;;) {
    trial.signal?.throwIfAborted();
    const changed = instance.changed();
    const wait = await look(instance, Date.now() - began, trial);
    if (wait === undefined) return;
    // In short waits: the signal is looked at in between.
    await within(changed, wait);
  }
}

/**
 * Waits, for as long as a stop may take, until no request to it is without its answer. Nothing new may
 * come by then.
 */
export async function drained(instance: Instance): Promise<void> {
  const { plan: { stopGrace }, choice } = instance.record;
  // Of the host's network the connections are everybody's.
  if (choice.kind !== "bridges") return;
  const until = Date.now() + stopGrace;
  for (let idle = 0; instance.running && Date.now() < until;) {
    const { process } = instance.record;
    // Twice: a connection may have been on its way.
    idle = process && await inFlight(process.pid) > 0 ? 0 : idle + 1;
    if (idle === 2) return;
    await within(instance.changed(), DRAIN_MS);
  }
}

/**
 * Attaches to the main process of a container. What it prints is taken from the engine as fast as it comes: an
 * engine lets a slow reader hold up the process, its log and all other readers.
 */
import { SvcError } from "../../../../../lib/base/errors.ts";
import type { TerminalSize } from "../../../../../lib/base/terminal.ts";
import type { AttachSession, DeployCaps } from "../../../../../lib/deploy/caps.ts";
import { readFrames } from "../../../../../lib/docker/frames.ts";
import { type Duplex, readableOf } from "../../../../../lib/wire/duplex.ts";
import { isActive, runs } from "../inspect.ts";
import { instanceId } from "../record.ts";
import type { AbilityParts, DeployedParts } from "./parts.ts";

/** Bytes of output that may wait for one reader. */
const MOST_WAITING = 4 * 1024 ** 2;
/** Attachments to one instance at a time. */
const MOST_ATTACHED = 64;
/** The engine would detach at keys that somebody types; none that anybody does, and the first one is rare. */
const NO_KEYS = "ctrl-^,ctrl-],ctrl-^,ctrl-],ctrl-^";

/** An instance to attach to. */
export interface AttachPlace {
  id: string;
  container: string;
  tty: boolean;
  stdinOpen: boolean;
}

/** How an engine attaches. */
export interface AttachCalls {
  /**
   * The streams of an instance that runs, or is stopped: then of its next run. They end with the run. Both outputs are
   * one where `oneOutput` says so or it has a terminal, else they come in frames.
   */
  connect(place: AttachPlace, signal: AbortSignal): Promise<Duplex>;
  readonly oneOutput?: true;
  /** Has the engine take attachments to a container before its start. Absent: it does so anyway. */
  initialise?(container: string, signal: AbortSignal): Promise<void>;
  /** Absent: the engine tells a terminal no size. */
  resize?(place: AttachPlace, size: TerminalSize): Promise<void>;
  /** See {@linkcode EngineBehaviour.endsInput}. */
  readonly endsInput?: boolean;
}

interface AttachParts extends Pick<DeployedParts, "watch" | "require"> {
  calls: AttachCalls;
}

/** The output, and what it waits in. */
interface Outlet {
  readable: ReadableStream<Uint8Array>;
  /** False: the reader is too far behind. */
  put(bytes: Uint8Array): boolean;
  /** With the failure that its reader is told, after what waits where there is none. */
  end(failure?: unknown): void;
}

function outlet(): Outlet {
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let over = false;
  const readable = new ReadableStream<Uint8Array>({
    start: (it) => void (controller = it),
    cancel: () => void (over = true),
  }, { highWaterMark: MOST_WAITING, size: ({ length }) => length });
  return {
    readable,
    put(bytes) {
      // A copy: a few bytes would keep the whole chunk that they came in.
      if (!over) controller.enqueue(bytes.slice());
      return over || controller.desiredSize! > 0;
    },
    end(failure) {
      if (over) return;
      over = true;
      if (failure === undefined) controller.close();
      else controller.error(failure);
    },
  };
}

/** By the Docker Engine API. */
export function dockerAttach({ client, behaviour }: AbilityParts): AttachCalls {
  const { initialise, endsInput } = behaviour;
  return {
    endsInput,
    connect: ({ id, container, stdinOpen }, signal) =>
      client.upgrade({
        path: `/containers/${container}/attach`,
        // Podman takes an absent one for true.
        query: {
          ...{ stream: 1, stdout: 1, stderr: 1, detachKeys: NO_KEYS },
          stdin: stdinOpen ? 1 : 0,
        },
        attempted: `Cannot attach to ${id}`,
        signal,
      }),
    ...initialise && {
      initialise: (container: string, signal: AbortSignal) => initialise(client, container, signal),
    },
    resize: ({ id, container }, { columns, rows }) =>
      client.run({
        method: "POST",
        path: `/containers/${container}/resize`,
        query: { w: columns, h: rows },
        attempted: `Cannot resize the terminal of ${id}`,
      }),
  };
}

/** The connection to an instance that runs, or is stopped; undefined: the engine is about to start it again. */
async function connect(
  parts: AttachParts,
  place: AttachPlace,
  signal: AbortSignal,
): Promise<Duplex | undefined> {
  const { watch, calls } = parts;
  const found = watch.state(place.container);
  if (!found || isActive(found) && !runs(found)) return undefined;
  try {
    return await calls.connect(place, signal);
  } catch (error) {
    const now = await watch.look(place.container, signal);
    if (!now || now.State.Restarting) return undefined;
    throw error;
  }
}

function place({ require }: AttachParts, name: string, id?: string): AttachPlace {
  const deployment = require(name);
  const { container, replica } = deployment.pick(id);
  const { tty = false, stdinOpen = false } = deployment.record.spec;
  return { id: instanceId(name, replica), container, tty, stdinOpen };
}

/**
 * The exit code of the run that began at this time; undefined: nobody waits for it any more, or it was removed. It is
 * the event's own: who waits for an exit by the API of Docker 20.10 is told 0 where the next run has begun by then.
 */
async function ended(
  { watch }: AttachParts,
  container: string,
  startedAt: string,
  signal: AbortSignal,
): Promise<number | undefined> {
  const began = Date.parse(startedAt);
  for await (const event of watch.events.watch(signal)) {
    if (event.container !== container) continue;
    if (event.type === "removed") return undefined;
    if (event.type !== "died") continue;
    // Events come late: the death of the run before may be told after this run was seen.
    const died = Date.parse(event.time);
    // Some engines tell whole seconds.
    const first = died % 1000 === 0 ? Math.floor(began / 1000) * 1000 : began;
    if (!(died < first)) return event.exitCode;
  }
}

interface Attachment {
  at: AttachPlace;
  connection: Duplex;
  exit: Promise<number | undefined>;
  /** Aborting it ends the wait for the exit. */
  detached: AbortController;
}

/**
 * Waits for the instance to run. The connection is there before its start: nothing that it prints is missed.
 * Throws `not_found`, also where the deployment is removed meanwhile.
 */
async function whenRunning(
  parts: AttachParts,
  name: string,
  id: string | undefined,
  signal: AbortSignal,
): Promise<Attachment> {
  const { watch, calls } = parts;
  const { initialise } = calls;
  const waiting = new AbortController();
  const changes = watch.events.watch(AbortSignal.any([signal, waiting.signal]))
    [Symbol.asyncIterator]();
  let at: AttachPlace | undefined;
  let connection: Duplex | undefined;
  let hook: Disposable | undefined;
  const beforeStart = async (place: AttachPlace) => {
    await initialise!(place.container, signal);
    const made = await calls.connect(place, signal);
    if (waiting.signal.aborted || connection) made.reset();
    else connection = made;
  };
  const isRunning = () => {
    const found = at && watch.state(at.container);
    return found && runs(found) ? found : undefined;
  };
  try {
    for (;;) {
      const now = place(parts, name, id);
      watch.requireLive();
      if (now.container !== at?.container) {
        connection?.reset();
        connection = undefined;
        hook?.[Symbol.dispose]();
        hook = initialise && watch.starts.before(now.container, () => beforeStart(now));
      }
      at = now;
      if (!initialise || isRunning()) connection ??= await connect(parts, at, signal);
      const found = isRunning();
      if (connection && found) {
        const detached = new AbortController();
        const exit = ended(parts, at.container, found.State.StartedAt, detached.signal);
        const made = { at, connection, detached, exit };
        connection = undefined;
        return made;
      }
      await changes.next();
      signal.throwIfAborted();
    }
  } finally {
    waiting.abort();
    hook?.[Symbol.dispose]();
    connection?.reset();
  }
}

/** Passes on what comes, until it ends or a reader is too far behind. */
async function relay(
  { calls }: AttachParts,
  { id, tty }: AttachPlace,
  connection: Duplex,
  outlets: { stdout: Outlet; stderr: Outlet },
): Promise<void> {
  const behind = () =>
    new SvcError(
      "too_large",
      `Cannot go on with the output of ${id}: more than ${MOST_WAITING} bytes wait to be read`,
      { help: "attach again; what was printed is in the log" },
    );
  const output = readableOf(connection);
  if (tty || calls.oneOutput) {
    for await (const bytes of output) if (!outlets.stdout.put(bytes)) throw behind();
  } else {
    for await (const frames of readFrames(output)) {
      for (const { stream, bytes } of frames) if (!outlets[stream].put(bytes)) throw behind();
    }
  }
}

function session(
  parts: AttachParts,
  { at, connection, exit, detached }: Attachment,
  ending: AbortSignal,
  release: () => void,
): AttachSession {
  const { calls } = parts;
  const { tty, stdinOpen } = at;
  const outlets = { stdout: outlet(), stderr: outlet() };
  const close = (failure?: unknown) => {
    release();
    outlets.stdout.end(failure);
    outlets.stderr.end(failure);
    connection.reset();
  };
  const detach = () => {
    if (detached.signal.aborted) return;
    detached.abort();
    ending.removeEventListener("abort", detach);
    close();
  };
  ending.addEventListener("abort", detach, { once: true });
  exit.catch(() => {/* told to who waits for it */})
    .finally(() => ending.removeEventListener("abort", detach));
  if (tty || calls.oneOutput) outlets.stderr.end();
  relay(parts, at, connection, outlets).then(() => close(), close);
  const made: AttachSession = {
    stdout: outlets.stdout.readable,
    stderr: outlets.stderr.readable,
    exit,
    detach,
  };
  if (stdinOpen) made.stdin = inputOf(at, connection, calls.endsInput);
  const { resize } = calls;
  if (tty && resize) {
    made.resize = (size) => {
      resize(at, size).catch(() => {/* it has ended */});
    };
  }
  if (ending.aborted) detach();
  return made;
}

function inputOf(
  { id, tty }: AttachPlace,
  connection: Duplex,
  ends?: boolean,
): WritableStream<Uint8Array> {
  return new WritableStream({
    write: (bytes) => connection.write(bytes),
    close: async () => {
      // On a terminal the end of what somebody types is not the end of the terminal.
      if (tty) return;
      if (ends) return await connection.closeWrite();
      // Its one switch for this ends the input with whoever detaches, and with this server.
      throw new SvcError("unsupported", `Cannot end the input of ${id}: the engine keeps it open`, {
        help: "svc exec ends the input of what it runs; or deploy with tty, and type ^D",
      });
    },
  });
}

/** Counts the attachments to each instance. */
class Attached {
  readonly #counts = new Map<string, number>();

  /** Gives what takes it back, once. Throws `unavailable` where there are too many. */
  add(id: string): () => void {
    const count = this.#counts.get(id) ?? 0;
    if (count >= MOST_ATTACHED) {
      throw new SvcError("unavailable", `Cannot attach to ${id}: ${count} are attached to it`, {
        help: "detach others first, or read its log",
      });
    }
    this.#counts.set(id, count + 1);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const left = this.#counts.get(id)! - 1;
      if (left > 0) this.#counts.set(id, left);
      else this.#counts.delete(id);
    };
  }
}

export function attachAbility(parts: AttachParts): NonNullable<DeployCaps["attach"]> {
  const attached = new Attached();
  return async (name, { instance, signal } = {}) => {
    const { closing } = parts.watch;
    const ending = signal ? AbortSignal.any([signal, closing]) : closing;
    ending.throwIfAborted();
    const release = attached.add(place(parts, name, instance).id);
    try {
      return session(parts, await whenRunning(parts, name, instance, ending), ending, release);
    } catch (error) {
      release();
      throw error;
    }
  };
}

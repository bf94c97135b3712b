/**
 * Attaches to the main process of an instance. Its output is read from its log: so a slow reader delays neither
 * the process nor other readers, and what it prints is in the log whoever is attached.
 */
import { SvcError } from "../../base/errors.ts";
import type { AttachSession, InstanceOptions } from "../caps.ts";
import type { InstanceEvents } from "../instance_events.ts";
import type { Deployment } from "./deployment.ts";
import type { Deployments } from "./deployments.ts";
import type { ContainerEngine, ContainerInput } from "./engine.ts";
import type { Instance } from "./instance.ts";
import type { Run } from "./life.ts";
import type { LogPlace } from "./output_file.ts";

export interface AttachParts {
  engine: Pick<ContainerEngine, "input" | "logs" | "resize">;
  deployments: Deployments;
  events: InstanceEvents;
  /** Aborts when the backend is disposed of: all sessions are detached then. */
  closing: AbortSignal;
}

/** The running instance of that id, also one that is being made; absent: the first. */
function runningOf({ ready, instances }: Deployment, id?: string): Instance | undefined {
  return [...ready, ...instances].find((one) =>
    one.running && !one.leaving &&
    (id === undefined || one.id === id || String(one.made.replica) === id)
  );
}

/** Waits for the instance to run. Throws `not_found`, also where the deployment is removed meanwhile. */
async function whenRunning(
  { deployments, events }: AttachParts,
  name: string,
  id: string | undefined,
  signal: AbortSignal,
): Promise<Instance> {
  const waiting = new AbortController();
  const changes = events.watch(AbortSignal.any([signal, waiting.signal]))[Symbol.asyncIterator]();
  try {
    for (;;) {
      const deployment = deployments.require(name);
      const found = runningOf(deployment, id);
      if (found) return found;
      // Those that are being made count too.
      if (deployment.ready.length > 0) deployment.pick(id);
      await changes.next();
      signal.throwIfAborted();
    }
  } finally {
    waiting.abort();
  }
}

export async function attach(
  parts: AttachParts,
  name: string,
  { instance: id, signal }: InstanceOptions = {},
): Promise<AttachSession> {
  const { engine, deployments, closing } = parts;
  const ending = signal ? AbortSignal.any([signal, closing]) : closing;
  ending.throwIfAborted();
  // What is printed from now on is told, also what comes before this has found out that it runs.
  const places = new Map(
    await Promise.all(
      deployments.require(name).instances.map(async ({ made: { key } }) =>
        [key, await engine.logs.end(key)] as const
      ),
    ),
  );
  const instance = await whenRunning(parts, name, id, ending);
  const from = places.get(instance.made.key) ?? { inode: null, offset: 0 };
  return session(engine, instance, instance.life.run!, { from, ending });
}

function session(
  engine: AttachParts["engine"],
  { made: { key }, spec: { tty = false, stdinOpen = false } }: Instance,
  { ended }: Run,
  { from, ending }: { from: LogPlace; ending: AbortSignal },
): AttachSession {
  const detached = new AbortController();
  const { signal } = detached;
  const detach = () => detached.abort();
  ending.addEventListener("abort", detach, { once: true });
  signal.addEventListener("abort", () => ending.removeEventListener("abort", detach));
  const left = new Promise<undefined>((resolve) =>
    signal.addEventListener("abort", () => resolve(undefined))
  );
  if (ending.aborted) detach();
  const input = new EventTarget();
  const until = ended.promise.then(() => engine.logs.end(key));
  const output = (stream: "stdout" | "stderr") =>
    endable(signal, (signal) => engine.logs.output(key, { stream, from, until, signal, input }));
  return {
    stdout: output("stdout"),
    stderr: tty ? ReadableStream.from([]) : output("stderr"),
    exit: Promise.race([left, ended.promise]),
    detach,
    ...(stdinOpen &&
      {
        stdin: inputOf(() => engine.input(key, { tty }), {
          signal,
          tty,
          ended: ended.promise,
          typed: () => input.dispatchEvent(new Event("typed")),
        }),
      }),
    ...(tty && {
      resize: (size) => {
        engine.resize(key, size).catch(() => {/* it has ended */});
      },
    }),
  };
}

/** A stream whose reader may leave while nothing comes. */
function endable(
  detached: AbortSignal,
  begin: (signal: AbortSignal) => AsyncGenerator<Uint8Array, void, void>,
): ReadableStream<Uint8Array> {
  const left = new AbortController();
  const output = begin(AbortSignal.any([detached, left.signal]));
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await output.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      left.abort();
      await output.return();
    },
  }, { highWaterMark: 0 });
}

/** Opened with the first bytes: whoever only watches is no writer. */
function inputOf(
  open: () => Promise<ContainerInput>,
  { signal, tty, ended, typed }: {
    signal: AbortSignal;
    tty: boolean;
    ended: Promise<unknown>;
    typed: () => void;
  },
): WritableStream<Uint8Array> {
  let opened: Promise<ContainerInput> | undefined;
  const letGo = () => {
    opened?.then((input) => input.close(), () => {/* it was not opened */});
  };
  signal.addEventListener("abort", letGo);
  ended.then(letGo);
  return new WritableStream({
    async write(bytes) {
      signal.throwIfAborted();
      await (await (opened ??= open())).write(bytes);
      typed();
    },
    async close() {
      if (signal.aborted) return;
      // On a terminal the end of what somebody types is not the end of the terminal.
      if (tty) return letGo();
      try {
        await (await (opened ??= open())).end();
      } catch (error) {
        // It has ended already.
        if (!(error instanceof SvcError) || error.code !== "conflict") throw error;
      }
    },
    abort: letGo,
  });
}

/**
 * Podman's API service as a child of the server (SVC_PODMAN_SERVICE): on a socket that only the server's user may
 * open, started again where it ends, ended with the server.
 */
import { ifThere } from "../../../lib/base/fs.ts";
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import type { Logger } from "../../../lib/base/log.ts";
import { startProgram } from "../../../lib/base/process.ts";
import { sleep } from "../../../lib/base/sleep.ts";
import type { DockerEndpoint } from "../../../lib/docker/endpoint.ts";

/**
 * Seconds after which a service that nobody is connected to ends by itself: one whose server was killed. The
 * backend's watch of events keeps that of a living server busy.
 */
const IDLE_S = 60;
/** Milliseconds until it is started again; doubled each time up to the longest. */
const PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
/** A service that ran for that long begins with the shortest pause again. */
const STEADY_MS = 60_000;
/** Milliseconds from SIGTERM to SIGKILL. */
const GRACE_MS = 10_000;
/** Milliseconds that a start waits for its socket. */
const START_MS = 30_000;
/** Milliseconds that its last words are waited for. */
const LAST_WORDS_MS = 200;
/** Characters of its output that are told where it ends. */
const TAIL = 2000;

export interface PodmanServiceOptions {
  /** Of this server alone, in a folder that a reboot empties: the socket is in it. */
  folder: string;
  log: Logger;
  /** Default "podman". */
  program?: string;
}

/** Where the service with this folder listens. */
export function serviceEndpoint(folder: string): DockerEndpoint & { kind: "unix" } {
  const path = join(folder, "api.sock");
  return { kind: "unix", address: path, path };
}

export class PodmanService implements AsyncDisposable {
  /** Path of the socket. It may be missing while the service is started again. */
  readonly socket: string;
  readonly #options: PodmanServiceOptions;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();

  private constructor(options: PodmanServiceOptions) {
    this.#options = options;
    this.socket = serviceEndpoint(options.folder).path;
  }

  /**
   * Resolves once the service listens. Throws `prerequisite_missing` without podman, and `unavailable` with what
   * podman said where it ends at once.
   */
  static async start(options: PodmanServiceOptions): Promise<PodmanService> {
    const service = new PodmanService(options);
    const { folder } = options;
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    // It may have been there, with another mode.
    await Deno.chmod(folder, 0o700);
    const first = await service.#begin();
    try {
      await service.#listening(first);
    } catch (error) {
      await end(first);
      throw error;
    }
    service.#running = service.#watch(first);
    return service;
  }

  async #begin(): Promise<Running> {
    // A service whose server was killed may listen on it for a while; nobody knows it any more.
    await ifThere(Deno.remove(this.socket));
    const child = startProgram(
      this.#options.program ?? "podman",
      {
        args: ["system", "service", "--time", String(IDLE_S), `unix://${this.socket}`],
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      },
      {
        what: "Cannot run podman's API service: podman",
        help: "install podman, or set SVC_PODMAN_SOCKET to a service that runs",
      },
    );
    const running: Running = { child, since: performance.now(), words: "", ended: false };
    const reader = child.stderr.getReader();
    const read = keepTail(reader, running);
    running.over = child.status.then(async () => {
      running.ended = true;
      // What a container's monitor holds open is not waited for.
      await Promise.race([read, sleep(LAST_WORDS_MS)]);
      await reader.cancel();
    });
    return running;
  }

  async #listening(running: Running): Promise<void> {
    for (const until = performance.now() + START_MS;;) {
      try {
        (await Deno.connect({ transport: "unix", path: this.socket })).close();
        return;
      } catch (error) {
        if (running.ended || performance.now() > until) {
          await running.over;
          const words = running.words.trim();
          throw new SvcError(
            "unavailable",
            `Cannot run podman's API service: ${words || "it does not listen"}`,
            {
              cause: error,
              help: "run `podman system service -t 5 unix:///tmp/x.sock` to see why",
            },
          );
        }
        await sleep(20);
      }
    }
  }

  async #watch(first: Running): Promise<void> {
    const { log } = this.#options;
    const { signal } = this.#stop;
    let running: Running | undefined = first;
    let pause = PAUSE_MS;
    while (!signal.aborted) {
      if (running) {
        await Promise.race([running.over, aborted(signal)]);
        if (signal.aborted) return await end(running);
        log.warn("podman's API service has ended; it is started again", {
          words: running.words.trim(),
        });
        if (performance.now() - running.since > STEADY_MS) pause = PAUSE_MS;
      }
      await sleep(pause, signal).catch(() => {/* the server ends */});
      if (signal.aborted) return;
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
      running = await this.#begin().catch((error) => {
        log.warn("podman's API service cannot be started", { error });
        return undefined;
      });
    }
  }

  /** Ends the service; containers run on. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await Deno.remove(this.socket).catch(() => {/* podman removes it itself */});
  }
}

interface Running {
  child: Deno.ChildProcess;
  /** Milliseconds since 1970. */
  since: number;
  /** The end of what it printed. */
  words: string;
  ended: boolean;
  over?: Promise<unknown>;
}

async function keepTail(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  running: Running,
): Promise<void> {
  const decoder = new TextDecoder();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    running.words = (running.words + decoder.decode(value, { stream: true })).slice(-TAIL);
  }
}

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

async function end(running: Running): Promise<void> {
  const signal = (name: Deno.Signal) => {
    if (running.ended) return;
    try {
      running.child.kill(name);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // it has ended meanwhile
    }
  };
  signal("SIGTERM");
  const timer = setTimeout(() => signal("SIGKILL"), GRACE_MS);
  await running.over;
  clearTimeout(timer);
}

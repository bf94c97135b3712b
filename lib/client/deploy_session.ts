/** A deploy session from the caller's side (lib/api/session.ts): resumed where its connection breaks. */
import type { ApplyResult, DeploymentStatus } from "../api/deployment.ts";
import {
  SESSION_PATH,
  SESSION_VERSION,
  type SessionEvent,
  type SessionRequest,
} from "../api/session.ts";
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import { isLost, lost, type YamuxSession } from "../wire/yamux/session.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import { type Client, problemError } from "./client.ts";
import type { SpecBody } from "./deployments.ts";
import { openYamux } from "./yamux_socket.ts";

/** Between two attempts to resume, in milliseconds. */
const PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 2000;

/** A server that was away starts its grace period when it is back: for so long it is waited for. */
const RESTART_MS = 60_000;

export interface SessionWatcher {
  /** The server has taken it: from now on the deployment hangs on this session. */
  onOpen?(name: string, graceMs: number): void;
  onProgress?(message: string): void;
  /** The connection is gone, and resumed again. */
  onLost?(): void;
  onResumed?(): void;
  /** Milliseconds beyond its grace period that a server which is away is waited for. */
  restartMs?: number;
}

export interface DeploySession {
  /**
   * When every instance runs. Rejects as `closed` does; never settles where the session ended before.
   */
  readonly applied: Promise<ApplyResult>;
  /** Nothing of the deployment runs any more; may never settle. */
  readonly exited: Promise<DeploymentStatus>;
  /**
   * How it ended: as it was asked to, or the deployment was removed by somebody else. Rejects where it could
   * not be opened, or not be resumed in time.
   */
  readonly closed: Promise<"ended" | "gone">;
  /** Asks the server to remove the deployment; `closed` tells when it is done. Idempotent. */
  end(): void;
}

/** What a connection that is not there, or a server that is not, is told by: tried again. */
function isAway(error: unknown): boolean {
  return isLost(error) || error instanceof SvcError &&
      ["server_unreachable", "upstream_failed", "unavailable", "timeout"].includes(error.code);
}

class Session implements DeploySession {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #watcher: SessionWatcher;
  readonly #applied = Promise.withResolvers<ApplyResult>();
  readonly #exited = Promise.withResolvers<DeploymentStatus>();
  readonly closed: Promise<"ended" | "gone">;
  /** What resumes it, once the server has told. */
  #resume: SessionRequest & { type: "resume" } | undefined;
  #graceMs = 0;
  #control: YamuxStream | undefined;
  #ending = false;

  constructor(
    client: Client,
    request: SessionRequest,
    { signal, ...watcher }: SessionWatcher & { signal: AbortSignal },
  ) {
    this.#client = client;
    this.#signal = signal;
    this.#watcher = watcher;
    this.closed = this.#run(request);
    this.closed.catch(this.#applied.reject);
    // Whoever waits for one of them need not wait for the other.
    this.applied.catch(() => {});
  }

  get applied(): Promise<ApplyResult> {
    return this.#applied.promise;
  }

  get exited(): Promise<DeploymentStatus> {
    return this.#exited.promise;
  }

  end(): void {
    if (this.#ending) return;
    this.#ending = true;
    this.#sayEnd();
  }

  #sayEnd(): void {
    if (this.#control) writeLine(this.#control, { type: "end" }).catch(() => {/* said again */});
  }

  async #run(request: SessionRequest): Promise<"ended" | "gone"> {
    for (;;) {
      const session = await (this.#resume ? this.#reopen() : openYamux(this.#client, SESSION_PATH));
      try {
        return await this.#converse(session, this.#resume ?? request);
      } catch (error) {
        this.#signal.throwIfAborted();
        if (!isLost(error)) {
          // The server removed it meanwhile, which is what was wanted.
          if (this.#ending && this.#resume && isGone(error)) return "ended";
          throw error;
        }
        if (!this.#resume) throw unknownOutcome(this.#client.server, error);
        this.#watcher.onLost?.();
      } finally {
        this.#control = undefined;
        session[Symbol.dispose]();
      }
    }
  }

  async #reopen(): Promise<YamuxSession> {
    const until = Date.now() + this.#graceMs + (this.#watcher.restartMs ?? RESTART_MS);
    for (let pause = PAUSE_MS;; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
      await sleep(pause, this.#signal);
      try {
        return await openYamux(this.#client, SESSION_PATH);
      } catch (error) {
        this.#signal.throwIfAborted();
        if (!isAway(error) || Date.now() > until) throw error;
      }
    }
  }

  async #converse(session: YamuxSession, request: SessionRequest): Promise<"ended" | "gone"> {
    const abort = () => session[Symbol.dispose]();
    this.#signal.addEventListener("abort", abort, { once: true });
    try {
      this.#signal.throwIfAborted();
      const control = session.open();
      await writeLine(control, request);
      const lines = new LineReader(control);
      for (;;) {
        const event = await lines.line();
        // It hung up without a word: as good as a connection that broke.
        if (event === undefined) throw lost("the server hung up");
        if (!isEvent(event)) throw unreadable(this.#client.server);
        const end = this.#take(event, control);
        if (end === undefined) continue;
        await session.close();
        return end;
      }
    } finally {
      this.#signal.removeEventListener("abort", abort);
    }
  }

  /** How it ended; undefined: it goes on. What a newer server tells besides is passed over. */
  #take(event: SessionEvent, control: YamuxStream): "ended" | "gone" | undefined {
    switch (event.type) {
      case "session": {
        const { name, token, graceMs } = event;
        const resumed = this.#resume !== undefined;
        this.#resume = { type: "resume", version: SESSION_VERSION, name, token };
        this.#graceMs = graceMs;
        this.#control = control;
        if (this.#ending) this.#sayEnd();
        if (resumed) this.#watcher.onResumed?.();
        else this.#watcher.onOpen?.(name, graceMs);
        return undefined;
      }
      case "progress":
        return void this.#watcher.onProgress?.(event.message);
      case "result":
        return void this.#applied.resolve(event.result);
      case "exited":
        return void this.#exited.resolve(event.deployment);
      case "gone":
      case "ended":
        return event.type;
      case "error":
        throw problemError(event.error);
    }
  }
}

type Fields = Record<string, unknown>;

const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;

const isDeployment = (value: unknown) =>
  isObject(value) && typeof value.name === "string" &&
  [value.instances, value.ports, value.warnings].every(Array.isArray);

/** What of each event is relied on; of unknown ones nothing is. */
const CHECKS: { [T in SessionEvent["type"]]: (event: Fields) => boolean } = {
  session: ({ name, token, graceMs }) =>
    typeof name === "string" && typeof token === "string" && Number.isFinite(graceMs),
  progress: ({ message }) => typeof message === "string",
  result: ({ result }) => isObject(result) && isDeployment(result.deployment),
  exited: ({ deployment }) => isDeployment(deployment),
  gone: () => true,
  ended: () => true,
  error: ({ error }) =>
    isObject(error) && typeof error.code === "string" && typeof error.detail === "string",
};

function isEvent(value: unknown): value is SessionEvent {
  if (!isObject(value) || typeof value.type !== "string") return false;
  return !Object.hasOwn(CHECKS, value.type) || CHECKS[value.type as SessionEvent["type"]](value);
}

function unreadable(server: string): SvcError {
  return new SvcError("upstream_failed", `Cannot read the session's messages of ${server}`, {
    help: "check that client and server are svc of about the same version",
  });
}

const isGone = (error: unknown) => error instanceof SvcError && error.code === "not_found";

function unknownOutcome(server: string, cause: unknown): SvcError {
  return new SvcError(
    "upstream_failed",
    `Cannot open the session: the connection to ${server} was lost before it had begun`,
    { cause, help: "deploy again; what may have begun there is removed by the server in a while" },
  );
}

/**
 * Opens a session and deploys the spec in it. Aborting `signal` leaves at once: the server then removes the
 * deployment after its grace period.
 */
export function openDeploySession(
  client: Client,
  body: SpecBody,
  options: SessionWatcher & { signal: AbortSignal },
): DeploySession {
  const open = { type: "open", version: SESSION_VERSION } as const;
  const request = "text" in body
    ? { ...open, text: body.text, source: body.source }
    : { ...open, spec: body.spec, ...(body.certificates && { certificates: body.certificates }) };
  return new Session(client, request, options);
}

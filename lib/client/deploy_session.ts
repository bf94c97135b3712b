/** A deploy session from the caller's side (lib/api/session.ts): resumed when its connection breaks. */
import type { ApplyResult, ApplyUntil, DeploymentStatus } from "../api/deployment.ts";
import { SESSION_PATH, type SessionEvent, type SessionRequest } from "../api/session.ts";
import { SvcError } from "../base/errors.ts";
import { type AttachedOptions, isLost, lost } from "../wire/attached/session.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import { ResumingSession } from "./attached/resuming.ts";
import type { Client } from "./client.ts";
import { problemError } from "./problems.ts";
import type { SpecBody } from "./deployments.ts";

export interface SessionWatcher {
  /** The server has accepted the session: from now on the deployment ends with it. */
  onOpen?(name: string, graceMs: number): void;
  /** What resumes the session, also in another process. Called before `onOpen`, and again where it changes. */
  onToken?(resume: SessionResume): void;
  onProgress?(message: string): void;
  /** Called when the connection is lost, `onResumed` when the session is resumed. */
  onLost?(): void;
  onResumed?(): void;
  /** Milliseconds that a server which is away is waited for, beyond its grace period. */
  restartMs?: number;
  /** What the server may ask of this caller: kinds of streams that it may open, with the handler of each. */
  takes?: AttachedOptions["takes"];
  /** How far the apply goes before `applied`; absent: "ready". */
  until?: ApplyUntil;
}

/** What it takes to go on with a session; a secret. */
export interface SessionResume {
  name: string;
  token: string;
  graceMs: number;
}

export interface DeploySession {
  /** Resolves when every instance runs. Rejects as `closed` does; never settles if the session ended before. */
  readonly applied: Promise<ApplyResult>;
  /** Resolves when all instances have ended; may never settle. */
  readonly exited: Promise<DeploymentStatus>;
  /**
   * How the session ended: "ended" on request, "gone" because somebody else removed the deployment. Rejects if
   * the session could not be opened, or not be resumed in time.
   */
  readonly closed: Promise<"ended" | "gone">;
  /** Asks the server to remove the deployment; `closed` tells when it is done. Idempotent. */
  end(): void;
}

export interface SessionOptions extends SessionWatcher {
  /** Aborting it leaves at once. */
  signal: AbortSignal;
  /** Goes on with this session instead of opening one. */
  resume?: SessionResume;
}

/** A workload's connections through this machine are streams, too. */
const MAX_STREAMS = 1024;

class Session implements DeploySession {
  readonly #client: Client;
  readonly #watcher: SessionWatcher;
  readonly #connections: ResumingSession;
  readonly #applied = Promise.withResolvers<ApplyResult>();
  readonly #exited = Promise.withResolvers<DeploymentStatus>();
  readonly closed: Promise<"ended" | "gone">;
  #control: YamuxStream | undefined;
  #ending = false;

  constructor(
    client: Client,
    request: SessionRequest,
    { signal, resume, ...watcher }: SessionOptions,
  ) {
    this.#client = client;
    this.#watcher = watcher;
    this.#connections = new ResumingSession(client, {
      path: SESSION_PATH,
      attempt: "open a session",
      ...{ signal, onLost: watcher.onLost, restartMs: watcher.restartMs, takes: watcher.takes },
      maxStreams: MAX_STREAMS,
    });
    if (resume) this.#connections.resumable(resume, resume.graceMs);
    this.closed = this.#run(request);
    this.closed.catch(this.#applied.reject);
    // A caller need not wait for both of them.
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
    const connections = this.#connections;
    try {
      return await connections.run("deploy", (control) => this.#converse(control, request));
    } catch (error) {
      // The server removed the deployment after its grace period, as was asked.
      if (this.#ending && connections.isResumable && isGone(error)) return "ended";
      const never = isLost(error) && !connections.isResumable;
      throw never ? unknownOutcome(this.#client.server, error) : error;
    }
  }

  async #converse(control: YamuxStream, request: SessionRequest): Promise<"ended" | "gone"> {
    const resumed = this.#connections.isResumable;
    try {
      await writeLine(control, resumed ? { type: "resume" } satisfies SessionRequest : request);
      const lines = new LineReader(control);
      for (;;) {
        const event = await lines.line();
        // A stream that ends without an event is treated as a lost connection.
        if (event === undefined) throw lost("the server hung up");
        if (!isEvent(event)) throw unreadable(this.#client.server);
        const end = this.#take(event, control, resumed);
        if (end !== undefined) return end;
      }
    } finally {
      this.#control = undefined;
    }
  }

  /** Handles an event. How the session ended; undefined: it continues. Events of unknown types are ignored. */
  #take(
    event: SessionEvent,
    control: YamuxStream,
    resumed: boolean,
  ): "ended" | "gone" | undefined {
    switch (event.type) {
      case "session": {
        const { name, token, graceMs } = event;
        this.#connections.resumable({ name, token }, graceMs);
        this.#watcher.onToken?.({ name, token, graceMs });
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
        // What ends because of the removal that was asked for has not ended by itself.
        if (!this.#ending) this.#exited.resolve(event.deployment);
        return undefined;
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

/** For each type of event, whether it has the members that are used; events of unknown types pass. */
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
    { cause, help: "deploy again; the server soon removes what it may have begun" },
  );
}

/**
 * Opens a session and deploys the spec in it. Aborting `signal` leaves at once: the server then removes the
 * deployment after its grace period.
 */
export function openDeploySession(
  client: Client,
  body: SpecBody,
  options: SessionOptions,
): DeploySession {
  const { logins, mounts } = body;
  const open = {
    type: "open",
    ...(logins && { logins }),
    ...(mounts?.length && { mounts }),
    ...(options.until && { until: options.until }),
  } as const;
  const request = "text" in body ? { ...open, text: body.text, source: body.source } : {
    ...{ ...open, spec: body.spec },
    ...(body.certificates && { certificates: body.certificates }),
    ...(body.files?.length && { files: body.files }),
  };
  return new Session(client, request, options);
}

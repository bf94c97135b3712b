/**
 * One deploy session: a deployment that is removed when its caller ends the session, or when the caller's
 * connection was lost and nobody resumed the session within the grace period.
 *
 * A session is always in one of these states:
 * - applying: the deployment is created, even while the caller is away. A failure is kept for the caller.
 * - watching: the deployment runs. The caller is told when all instances have exited, and when somebody else
 *   has removed the deployment.
 * - ending: the deployment is removed, then its record; then the caller is told.
 * - stopped: the server shuts down. Deployment and record stay for the next server.
 */
import type { ApplyResult, ApplyUntil, DeploymentStatus } from "../../api/deployment.ts";
import type { CallerMount } from "../../api/caller_mounts.ts";
import type { DeliveredFile } from "../../api/delivered_files.ts";
import type { SessionEvent } from "../../api/session.ts";
import type { HostCertificate } from "../../api/ingress_certificates.ts";
import { type Problem, toProblem } from "../../api/problem.ts";
import { asSvcError, SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Deployments } from "../../deploy/deployments.ts";
import type { Login } from "../../oci/resolver.ts";
import type { SessionCaller } from "../../wire/attached/callers.ts";
import { isToken, Lasting, type Timer } from "../attached/lasting.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { CallerStreams, type StreamOpener } from "./caller_streams.ts";
import type { SessionRecord, SessionRecords } from "./records.ts";

/** Milliseconds until a removal that failed is tried again. */
export const RETRY_MS = 10_000;
/**
 * Milliseconds for a stopped workload to be started again before its end is told: who restarts it by the engine's own
 * commands (`docker restart`) stops it first.
 */
export const STOPPED_MS = 5000;

/** The connection of a session's caller. */
export interface SessionLink extends StreamOpener {
  /** Sends the event. Never throws; events for a connection that is lost go nowhere. */
  tell(event: SessionEvent): void;
  /** The part of a thrown value that the caller may see. */
  describe(error: unknown): Problem;
  /** No event follows: closes the connection when all events are sent. */
  finish(): void;
  /** Closes the connection at once. */
  drop(why: string): void;
}

/** What a caller sends with its spec and no record keeps. */
export interface SessionSecrets {
  /** With their keys. */
  certificates?: readonly HostCertificate[];
  /** At registries, by host. */
  logins?: ReadonlyMap<string, Login>;
  /** Of the caller's own files. */
  mounts?: readonly CallerMount[];
  files?: readonly DeliveredFile[];
  /** How far the apply goes; no record keeps it, either: after a restart of the server the default applies. */
  until?: ApplyUntil;
}

export interface SessionParts {
  records: SessionRecords;
  backend: () => Promise<Deployments>;
  lifecycle: Lifecycle;
  log: Logger;
  /** Milliseconds that a deployment outlives its caller's connection. */
  graceMs: number;
  after: Timer;
  /** Called when deployment and record are gone. */
  forget: (session: DeploySession) => void;
}

/** All instances have ended, and the backend will not start one again. */
function isOver({ state, instances }: DeploymentStatus): boolean {
  return (state === "stopped" || state === "failed") && instances.length > 0 &&
    instances.every(({ state }) => state === "exited" || state === "failed");
}

function withoutSecrets(name: string): SvcError {
  return new SvcError(
    "unavailable",
    `Cannot deploy ${name}: the server was restarted before its certificates or files were in place`,
    { help: "deploy again: they are sent again; the server does not keep them" },
  );
}

function mountsEnded(name: string): SvcError {
  return new SvcError(
    "unavailable",
    `Cannot continue the session of ${name}: the server was restarted, and its mounts ended with it`,
    { help: "deploy again" },
  );
}

const tooLate = (name: string) =>
  new SvcError(
    "not_found",
    `Cannot resume the session of ${name}: it was not resumed in time, and its deployment is removed`,
    { help: "deploy again" },
  );

export class DeploySession {
  readonly record: SessionRecord;
  readonly #parts: SessionParts;
  readonly #caller: Lasting<SessionLink>;
  readonly #streams: CallerStreams;
  /** Aborts the apply. */
  readonly #abort = new AbortController();
  #applying: Promise<void> | undefined;
  /** Of the record's spec, until it is applied. They are kept in memory alone. */
  #secrets: SessionSecrets;
  readonly #mounted: boolean;
  #result: ApplyResult | undefined;
  /** Why the apply failed while the caller was away. The caller is told when it resumes the session. */
  #failure: Problem | undefined;
  /** The caller was told, or is to be told, that all instances have ended. */
  #exited: DeploymentStatus | undefined;
  /** The time in which a stopped workload may be started again has begun, or is over. */
  #respite: "begun" | "over" | undefined;
  #cancelRespite = () => {};
  #ending: Promise<void> | undefined;
  #stopped = false;
  /** The deployment has changed since the last look at its status began. */
  #changed = false;
  #looking: Promise<void> | undefined;

  constructor(
    record: SessionRecord,
    parts: SessionParts,
    secrets: SessionSecrets = {},
  ) {
    this.record = record;
    this.#parts = parts;
    this.#caller = new Lasting(parts.after);
    this.#streams = new CallerStreams(
      record.name,
      (error) => this.#end({ type: "error", error: toProblem(asSvcError(error)) }),
    );
    this.#secrets = secrets;
    this.#mounted = secrets.mounts !== undefined;
  }

  get name(): string {
    return this.record.name;
  }

  /** For what the server asks of the caller. */
  get caller(): SessionCaller {
    return this.#streams;
  }

  get connected(): boolean {
    return this.#link !== undefined;
  }

  get #link(): SessionLink | undefined {
    return this.#caller.connection;
  }

  knows(token: string): Promise<boolean> {
    return isToken(token, this.record.token);
  }

  /**
   * The caller has opened the session, or resumed it on another connection. With `token` it can resume the
   * session again. Its earlier connection is closed if it is still open.
   */
  attach(link: SessionLink, token: string): void {
    this.#caller.connect(link);
    if (this.#stopped) return;
    this.#streams.connection = link;
    const { name } = this;
    link.tell({ type: "session", name, token, graceMs: this.#parts.graceMs });
    if (this.#ending) return;
    if (this.#failure) return void this.#end({ type: "error", error: this.#failure });
    if (this.#applying) return;
    if (this.record.spec) return this.#apply();
    this.#catchUp().catch((error) =>
      this.#parts.log.warn("a session's caller did not get the deployment's status", {
        name,
        error,
      })
    );
  }

  /** The connection is lost: the grace period begins. */
  detach(link: SessionLink): void {
    if (!this.#caller.disconnect(link)) return;
    this.#streams.connection = undefined;
    this.wait();
  }

  /** Begins the grace period. The deployment is removed unless the session is resumed before its end. */
  wait(): void {
    const { name } = this;
    this.#endAfter(this.#parts.graceMs, () => {
      this.#parts.log.info("a session was not resumed: its deployment is removed", {
        deployment: name,
      });
      // For a caller that comes while it is being removed.
      const late = this.#unmounted ? mountsEnded(name) : tooLate(name);
      return { type: "error", error: this.#failure ?? toProblem(late) };
    });
  }

  /** A record of the server before, whose mounts have ended with it. */
  get #unmounted(): boolean {
    return this.record.mounted === true && !this.#mounted;
  }

  /** Where the workload's mounts have ended with the server before, the deployment is removed at once. */
  endUnmounted(): void {
    const { name } = this;
    if (!this.#unmounted) return;
    this.#parts.log.warn(
      "a session's mounts ended with the last server: its deployment is removed",
      {
        deployment: name,
      },
    );
    this.#end({ type: "error", error: toProblem(mountsEnded(name)) });
  }

  #endAfter(ms: number, last: () => SessionEvent): void {
    if (this.#ending) return;
    this.#caller.countDown(ms, () => this.#end(last()));
  }

  /** The caller asks for the end of the session. */
  end(): void {
    this.#end({ type: "ended" });
  }

  /**
   * The server shuts down. Deployment and record stay, so that the session can be resumed at the next server.
   * A removal that has begun is finished.
   */
  stop(): void {
    this.#stopped = true;
    this.#endRespite();
    this.#caller.stop();
    this.#streams.connection = undefined;
    if (!this.#ending) this.#link?.drop("the server is shutting down");
  }

  #apply(): void {
    const { backend, lifecycle, records, log } = this.#parts;
    const { spec, certified, ...applied } = this.record;
    const { certificates, logins, mounts, files, until } = this.#secrets;
    const { signal } = this.#abort;
    const onProgress = (message: string) => this.#link?.tell({ type: "progress", message });
    const done = lifecycle.begin();
    const work = async () => {
      if (this.#unmounted) throw mountsEnded(this.name);
      if (certified && !certificates && !files) throw withoutSecrets(this.name);
      const { mayPull } = this.record;
      const beside = {
        ...(certificates && { certificates }),
        ...(mounts && { callerMounts: mounts }),
        ...(files && { files }),
      };
      const engine = await backend();
      const result = await engine.apply(spec!, beside, {
        ...{ onProgress, signal, mayPull, logins, until },
      });
      this.#secrets = {};
      delete this.record.spec;
      delete this.record.certified;
      await records.save(applied).catch((error) =>
        // Harmless: if the server restarts now, a resumed session applies the same spec once more.
        log.warn("a session's record was not updated", { deployment: this.name, error })
      );
      this.#result = result;
      this.#link?.tell({ type: "result", result });
      this.look();
    };
    // Read now: the connection may be lost when the apply fails.
    const describe = this.#link!.describe;
    this.#applying = work().catch((error) => {
      if (signal.aborted) return;
      const problem = describe(error);
      this.#failure = problem;
      if (this.#link) this.#end({ type: "error", error: problem });
    }).finally(() => {
      this.#applying = undefined;
      done();
    });
  }

  /** Tells a caller that has resumed the session the current status of its deployment. */
  async #catchUp(): Promise<void> {
    const link = this.#link;
    const deployment = await (await this.#parts.backend()).status(this.name);
    if (!deployment) return this.#end({ type: "gone" });
    const action = this.#result?.action ?? "unchanged";
    this.#result = { action, deployment };
    link?.tell({ type: "result", result: this.#result });
    if (this.#exited) link?.tell({ type: "exited", deployment: this.#exited });
    this.look();
  }

  /**
   * Something of the deployment has changed: looks at its status. The caller is told when all instances have
   * ended, and when somebody else has removed the deployment.
   */
  look(): void {
    this.#changed = true;
    // Before the first result the caller knows nothing of the deployment. The result is followed by a look.
    if (!this.#result || this.#looking) return;
    this.#looking = this.#lookWhileChanged();
  }

  /** One look at a time, so that the caller hears the latest status last. */
  async #lookWhileChanged(): Promise<void> {
    const { backend, log, after } = this.#parts;
    try {
      while (this.#changed && !this.#ending && !this.#stopped) {
        this.#changed = false;
        const deployment = await (await backend()).status(this.name);
        // A removal may have begun meanwhile. Instances that it ends have not exited by themselves.
        if (!this.#ending) this.#see(deployment);
      }
    } catch (error) {
      log.debug("the status of a session's deployment is not known", {
        deployment: this.name,
        error,
      });
      after(RETRY_MS, () => this.look());
    } finally {
      this.#looking = undefined;
    }
  }

  #see(deployment: DeploymentStatus | undefined): void {
    if (!deployment) return this.#end({ type: "gone" });
    if (!isOver(deployment)) {
      this.#exited = undefined;
      this.#endRespite();
    } else if (this.record.restarts && this.#respite !== "over") {
      if (this.#respite) return;
      this.#respite = "begun";
      this.#cancelRespite = this.#parts.after(STOPPED_MS, () => {
        this.#respite = "over";
        this.look();
      });
    } else if (!this.#exited) {
      this.#exited = deployment;
      this.#link?.tell({ type: "exited", deployment });
    }
  }

  #endRespite(): void {
    this.#cancelRespite();
    this.#respite = undefined;
  }

  /** Removes the deployment; `last` is the last event that the caller is told. */
  #end(last: SessionEvent): void {
    if (this.#ending || this.#stopped) return;
    this.#endRespite();
    this.#caller.stopCountdown();
    const done = this.#parts.lifecycle.begin();
    this.#ending = this.#remove(last).finally(done);
  }

  /** The deployment is removed before its record: after a crash in between, the next server removes it again. */
  async #remove(last: SessionEvent): Promise<void> {
    const { backend, records, forget, log } = this.#parts;
    this.#abort.abort(new DOMException("the session has ended", "AbortError"));
    await this.#applying;
    let told = last;
    try {
      await (await backend()).delete(this.name);
      await records.remove(this.name);
      forget(this);
      this.#streams.end();
    } catch (error) {
      log.warn("a session's deployment was not removed; svc tries again", {
        deployment: this.name,
        error,
      });
      if (this.#link) told = { type: "error", error: this.#link.describe(error) };
      this.#ending = undefined;
    }
    const link = this.#link;
    link?.tell(told);
    link?.finish();
    if (link) this.#caller.disconnect(link);
    this.#streams.connection = undefined;
    // The removal failed, and nothing else would repeat it.
    if (!this.#ending) this.#endAfter(RETRY_MS, () => last);
  }
}

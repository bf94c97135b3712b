/** One deploy session: a deployment that ends with its caller, or a while after the caller was lost. */
import type { ApplyResult, DeploymentStatus } from "../../api/deployment.ts";
import type { SessionEvent } from "../../api/session.ts";
import type { HostCertificate } from "../../api/ingress_certificates.ts";
import type { Problem } from "../../api/problem.ts";
import { SvcError } from "../../base/errors.ts";
import { sha256 } from "../../base/hash.ts";
import type { Logger } from "../../base/log.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { SessionRecord, SessionRecords } from "./records.ts";

/** Until a removal that failed is tried again. */
export const RETRY_MS = 10_000;

/** A caller that is connected. */
export interface SessionLink {
  tell(event: SessionEvent): void;
  /** What a caller is told of a thrown value. */
  describe(error: unknown): Problem;
  /** Nothing more will be told: hangs up once what was is out. */
  finish(): void;
  /** Hangs up at once. */
  drop(why: string): void;
}

/** Runs `work` after so many milliseconds unless it is cancelled before. */
export type Timer = (ms: number, work: () => void) => () => void;

export interface SessionParts {
  records: SessionRecords;
  backend: () => Promise<DeployBackend>;
  lifecycle: Lifecycle;
  log: Logger;
  /** Milliseconds that a deployment outlives its caller's connection. */
  graceMs: number;
  /** Milliseconds between two looks at the deployment. */
  watchMs: number;
  after: Timer;
  forget: (session: DeploySession) => void;
}

/** Nothing of it runs, and nothing will be started again. */
function isOver({ state, instances }: DeploymentStatus): boolean {
  return (state === "stopped" || state === "failed") && instances.length > 0 &&
    instances.every(({ state }) => state === "exited" || state === "failed");
}

function withoutCertificates(name: string): SvcError {
  return new SvcError(
    "unavailable",
    `Cannot deploy ${name}: the server was restarted before its certificates were in place`,
    { help: "deploy again: their keys are sent anew, and kept nowhere" },
  );
}

export class DeploySession {
  readonly record: SessionRecord;
  readonly #parts: SessionParts;
  #link: SessionLink | undefined;
  #abort = new AbortController();
  #applying: Promise<void> | undefined;
  #certificates: readonly HostCertificate[] | undefined;
  #result: ApplyResult | undefined;
  #failure: Problem | undefined;
  #exited: DeploymentStatus | undefined;
  #ending: Promise<void> | undefined;
  #stopped = false;
  #cancelGrace: (() => void) | undefined;
  #cancelWatch: (() => void) | undefined;

  /** `certificates` of the record's spec. */
  constructor(
    record: SessionRecord,
    parts: SessionParts,
    certificates?: readonly HostCertificate[],
  ) {
    this.record = record;
    this.#parts = parts;
    this.#certificates = certificates;
  }

  get name(): string {
    return this.record.name;
  }

  get connected(): boolean {
    return this.#link !== undefined;
  }

  async knows(token: string): Promise<boolean> {
    return await sha256(token) === this.record.token;
  }

  /** The caller is here; one that still seems to be is let go: it is the same one, by another connection. */
  attach(link: SessionLink, token: string): void {
    if (this.#stopped) return link.drop("the server is shutting down");
    this.#link?.drop("the session was resumed by another connection");
    this.#link = link;
    this.#cancelGrace?.();
    this.#cancelGrace = undefined;
    const { name } = this;
    link.tell({ type: "session", name, token, graceMs: this.#parts.graceMs });
    if (this.#ending) return;
    if (this.#failure) return void this.#end({ type: "error", error: this.#failure });
    if (this.#applying) return;
    if (this.record.spec) return this.#apply();
    this.#catchUp().catch((error) =>
      this.#parts.log.warn("a session is not told", { name, error })
    );
  }

  /** The connection is gone: the deployment goes, unless somebody resumes the session before. */
  detach(link: SessionLink): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.wait();
  }

  /** From now on the grace period runs. */
  wait(): void {
    this.#removeAfter(this.#parts.graceMs, () => {
      this.#parts.log.info("a session was not resumed: its deployment is removed", {
        deployment: this.name,
      });
    });
  }

  #removeAfter(ms: number, tell: () => void): void {
    if (this.#ending || this.#stopped || this.#cancelGrace || this.#link) return;
    this.#cancelGrace = this.#parts.after(ms, () => {
      this.#cancelGrace = undefined;
      tell();
      this.#end({ type: "ended" });
    });
  }

  /** The caller wants it to end. */
  end(): void {
    this.#end({ type: "ended" });
  }

  /** The server ends, the deployment and its record stay. A removal that has begun goes on. */
  stop(): void {
    this.#stopped = true;
    this.#cancelGrace?.();
    this.#cancelWatch?.();
    this.#cancelGrace = this.#cancelWatch = undefined;
    if (!this.#ending) this.#link?.drop("the server is shutting down");
  }

  #apply(): void {
    const { backend, lifecycle, records, log } = this.#parts;
    const { spec, certified, ...applied } = this.record;
    const certificates = this.#certificates;
    const { signal } = this.#abort;
    const onProgress = (message: string) => this.#link?.tell({ type: "progress", message });
    const done = lifecycle.begin();
    const work = async () => {
      if (certified && !certificates) throw withoutCertificates(this.name);
      const result = await (await backend()).apply(spec!, {
        ...{ onProgress, signal, mayPull: this.record.mayPull },
        ...(certificates && { certificates }),
      });
      this.#certificates = undefined;
      delete this.record.spec;
      delete this.record.certified;
      await records.save(applied).catch((error) =>
        // Who resumes it after a restart applies what is there already.
        log.warn("a session's record is out of date", { deployment: this.name, error })
      );
      this.#result = result;
      this.#link?.tell({ type: "result", result });
      this.#watch();
    };
    // Its caller may be lost by the time that it fails.
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

  /** Tells who resumed it what there is. */
  async #catchUp(): Promise<void> {
    const link = this.#link;
    const deployment = await (await this.#parts.backend()).status(this.name);
    if (!deployment) return this.#end({ type: "gone" });
    const action = this.#result?.action ?? "unchanged";
    this.#result = { action, deployment };
    link?.tell({ type: "result", result: this.#result });
    if (this.#exited) link?.tell({ type: "exited", deployment: this.#exited });
    this.#watch();
  }

  /** An end is believed when it is seen twice: a restart may be between two looks. */
  #watch(seen = false): void {
    if (this.#cancelWatch || this.#ending || this.#stopped) return;
    this.#cancelWatch = this.#parts.after(this.#parts.watchMs, () => {
      this.#look(seen).then((over) => {
        this.#cancelWatch = undefined;
        this.#watch(over);
      });
    });
  }

  async #look(seen: boolean): Promise<boolean> {
    try {
      const deployment = await (await this.#parts.backend()).status(this.name);
      if (!deployment) {
        this.#end({ type: "gone" });
        return false;
      }
      const over = isOver(deployment);
      if (!over) this.#exited = undefined;
      else if (seen && !this.#exited) {
        this.#exited = deployment;
        this.#link?.tell({ type: "exited", deployment });
      }
      return over;
    } catch (error) {
      this.#parts.log.debug("a session's deployment is not seen", { error });
      return false;
    }
  }

  #end(last: SessionEvent): void {
    if (this.#ending || this.#stopped) return;
    this.#cancelGrace?.();
    this.#cancelWatch?.();
    this.#cancelGrace = this.#cancelWatch = undefined;
    const done = this.#parts.lifecycle.begin();
    this.#ending = this.#remove(last).finally(done);
  }

  /** The deployment, then its record: who finds the record removes what may be left. */
  async #remove(last: SessionEvent): Promise<void> {
    const { backend, records, forget, log } = this.#parts;
    this.#abort.abort(new DOMException("the session has ended", "AbortError"));
    await this.#applying;
    try {
      await (await backend()).delete(this.name);
      await records.remove(this.name);
      forget(this);
      this.#link?.tell(last);
      this.#link?.finish();
      this.#link = undefined;
    } catch (error) {
      log.warn("a session's deployment is not removed yet", { deployment: this.name, error });
      this.#link?.tell({ type: "error", error: this.#link.describe(error) });
      this.#link?.finish();
      this.#link = undefined;
      this.#ending = undefined;
      // Tried again: nobody else would.
      this.#removeAfter(RETRY_MS, () => {});
    }
  }
}

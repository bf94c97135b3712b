/**
 * All deploy sessions of a server: opens them, finds the session that a caller resumes, and takes over the
 * sessions of the server before a restart. A name belongs to at most one session. While it does, no other
 * deploy may use the name.
 */
import { join } from "node:path";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Deployments } from "../../deploy/deployments.ts";
import {
  requireAbilities,
  requireCallerMounts,
  requireDeliveredFiles,
} from "../../deploy/services.ts";
import { watchDeployments } from "../../deploy/watch.ts";
import { newToken, systemTimer, type Timer } from "../attached/lasting.ts";
import type { Lifecycle } from "../lifecycle.ts";
import type { SessionCaller, SessionCallers } from "../../wire/attached/callers.ts";
import type { Resume } from "../../wire/attached/hello.ts";
import { type SessionRecord, SessionRecords } from "./records.ts";
import {
  DeploySession,
  type SessionLink,
  type SessionParts,
  type SessionSecrets,
} from "./session.ts";

export interface DeploySessionsOptions {
  dataDir: string;
  backend: () => Promise<Deployments>;
  lifecycle: Lifecycle;
  log: Logger;
  /** Milliseconds that a deployment outlives its caller's connection. */
  graceMs: number;
  after?: Timer;
}

/** The caller of a new session. */
export interface Holder {
  subject: string;
  /** Host of the caller's address. */
  from: string;
  /** False: the caller may not pull, so the spec may use no image of this server. */
  mayPull?: false;
}

export class DeploySessions implements SessionCallers {
  readonly #records: SessionRecords;
  readonly #parts: SessionParts;
  readonly #sessions = new Map<string, DeploySession>();
  /** The backend's events are followed. */
  #watching = false;
  /** Names that are being deployed without a session right now, each with the number of such deploys. */
  readonly #applying = new Map<string, number>();

  constructor({ dataDir, backend, lifecycle, log, ...times }: DeploySessionsOptions) {
    this.#records = new SessionRecords(join(dataDir, "sessions"), log);
    this.#parts = {
      records: this.#records,
      backend,
      lifecycle,
      log,
      graceMs: times.graceMs,
      after: times.after ?? systemTimer,
      forget: (session) => {
        if (this.#sessions.get(session.name) === session) this.#sessions.delete(session.name);
      },
    };
    lifecycle.stopping.addEventListener("abort", () => {
      for (const session of this.#sessions.values()) session.stop();
    }, { once: true });
  }

  /** Reads the records of the server before this one. The grace period of each session begins now. */
  async takeOver(): Promise<void> {
    for (const record of await this.#records.load()) {
      const session = new DeploySession(record, this.#parts);
      this.#sessions.set(record.name, session);
      session.wait();
    }
  }

  of(deployment: string): SessionCaller | undefined {
    return this.#sessions.get(deployment)?.caller;
  }

  /**
   * Ends the sessions whose mounts ended with the server before. Called once the backend can be opened; a caller
   * may have resumed by then, and is told.
   */
  endUnmounted(): void {
    for (const session of this.#sessions.values()) session.endUnmounted();
  }

  /** Follows the backend's events. Begins with the first session, so that a server without sessions opens no backend. */
  #watch(): void {
    if (this.#watching) return;
    this.#watching = true;
    const { backend, lifecycle, log } = this.#parts;
    void watchDeployments({
      ...{ backend, log, signal: lifecycle.stopping },
      changed: (name) => this.look(name),
    });
  }

  /** A deployment, or any of them, may have changed: the callers of sessions are told. */
  look(name?: string): void {
    if (name !== undefined) this.#sessions.get(name)?.look();
    else for (const session of this.#sessions.values()) session.look();
  }

  /**
   * Reserves a name for a deploy without a session until the result is disposed of. Throws `conflict` where a
   * session holds the name.
   */
  claim(name: string): Disposable {
    const held = this.#sessions.get(name);
    if (held) throw heldError(`deploy ${name}`, held);
    this.#applying.set(name, (this.#applying.get(name) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        const left = this.#applying.get(name)! - 1;
        if (left === 0) this.#applying.delete(name);
        else this.#applying.set(name, left);
      },
    };
  }

  /**
   * Opens a session for a spec that was checked. When this resolves, the record is on disk and the apply has
   * begun. Throws `conflict` where the name is in use, and `unsupported` for certificates and mounts that the backend
   * cannot use.
   */
  async open(
    spec: DeploySpec,
    holder: Holder,
    link: SessionLink,
    secrets: SessionSecrets = {},
  ): Promise<DeploySession> {
    const { name } = spec;
    const attempt = `deploy ${name} in a session`;
    const held = this.#sessions.get(name);
    if (held) throw heldError(attempt, held);
    if (this.#applying.has(name)) throw existing(attempt, name);
    const { token, kept } = await newToken();
    const record: SessionRecord = {
      version: 1,
      name,
      token: kept,
      ...holder,
      createdAt: new Date().toISOString(),
      spec,
      ...((secrets.certificates || secrets.files?.length) && { certified: true as const }),
      ...(secrets.mounts?.length && { mounted: true as const }),
      ...(["always", "unless-stopped"].includes(spec.restart) && { restarts: true as const }),
    };
    const session = new DeploySession(record, this.#parts, secrets);
    // Checked again: another session may have taken the name while the token was hashed.
    const other = this.#sessions.get(name);
    if (other) throw heldError(attempt, other);
    this.#sessions.set(name, session);
    try {
      const backend = await this.#parts.backend();
      requireAbilities(backend, { certificates: secrets.certificates });
      if (secrets.mounts?.length) requireCallerMounts(backend);
      if (secrets.files?.length) requireDeliveredFiles(backend);
      if (await backend.status(name)) throw existing(attempt, name);
      await this.#records.save(record);
    } catch (error) {
      this.#sessions.delete(name);
      throw error;
    }
    this.#watch();
    session.attach(link, token);
    return session;
  }

  /**
   * The session that a caller resumes. Throws `not_found` where there is none of that name, where the token is
   * another session's, and where another identity than `subject` opened the session.
   */
  async find({ name, token }: Resume, subject: string): Promise<DeploySession> {
    const session = this.#sessions.get(name);
    const known = await session?.knows(token) && session!.record.subject === subject;
    // The session may have ended while the token was hashed.
    if (known && this.#sessions.get(name) === session) {
      this.#watch();
      return session!;
    }
    throw new SvcError(
      "not_found",
      `Cannot resume the session of ${name}: there is none, or it belongs to another client`,
      { help: "it was not resumed in time, and its deployment is removed; deploy again" },
    );
  }
}

function existing(attempt: string, name: string): SvcError {
  return new SvcError("conflict", `Cannot ${attempt}: there is a deployment of that name already`, {
    help: `svc rm ${name} first, or deploy without --session`,
  });
}

function heldError(attempt: string, { record, connected }: DeploySession): SvcError {
  const { subject, from, createdAt } = record;
  const lost = connected ? "" : ", whose connection is lost,";
  return new SvcError(
    "conflict",
    `Cannot ${attempt}: a session of ${subject} at ${from}${lost} holds it since ${createdAt}`,
    {
      help: connected
        ? "end that session first, or choose another name"
        : "wait until its grace period is over, or choose another name",
      detail: { subject, from, since: createdAt },
    },
  );
}

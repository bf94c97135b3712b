/** The deploy sessions of a server (DESIGN.md section 10): opened, resumed, taken over after a restart. */
import { join } from "node:path";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import type { HostCertificate } from "../../api/ingress_certificates.ts";
import { SvcError } from "../../base/errors.ts";
import { sha256 } from "../../base/hash.ts";
import type { Logger } from "../../base/log.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import { requireCertificates } from "../accept_spec.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { type SessionRecord, SessionRecords } from "./records.ts";
import { DeploySession, type SessionLink, type SessionParts, type Timer } from "./session.ts";

const WATCH_MS = 1000;

const systemTimer: Timer = (ms, work) => {
  const timer = setTimeout(work, ms);
  return () => clearTimeout(timer);
};

export interface DeploySessionsOptions {
  dataDir: string;
  backend: () => Promise<DeployBackend>;
  lifecycle: Lifecycle;
  log: Logger;
  /** Milliseconds. */
  graceMs: number;
  watchMs?: number;
  after?: Timer;
}

/** Who asks for a session. */
export interface Holder {
  subject: string;
  /** Host of the caller's address. */
  from: string;
  mayPull?: false;
}

export class DeploySessions {
  readonly #records: SessionRecords;
  readonly #parts: SessionParts;
  readonly #sessions = new Map<string, DeploySession>();
  /** Names that something else is being deployed under now, and how often. */
  readonly #applying = new Map<string, number>();

  constructor({ dataDir, backend, lifecycle, log, ...times }: DeploySessionsOptions) {
    this.#records = new SessionRecords(join(dataDir, "sessions"), log);
    this.#parts = {
      records: this.#records,
      backend,
      lifecycle,
      log,
      graceMs: times.graceMs,
      watchMs: times.watchMs ?? WATCH_MS,
      after: times.after ?? systemTimer,
      forget: (session) => {
        if (this.#sessions.get(session.name) === session) this.#sessions.delete(session.name);
      },
    };
    lifecycle.stopping.addEventListener("abort", () => {
      for (const session of this.#sessions.values()) session.stop();
    }, { once: true });
  }

  /** Sessions of an earlier server: each has the grace period to be resumed from now on. */
  async takeOver(): Promise<void> {
    for (const record of await this.#records.load()) {
      const session = new DeploySession(record, this.#parts);
      this.#sessions.set(record.name, session);
      session.wait();
    }
  }

  /** Throws `conflict` where a session holds the name; it takes none while the result is not disposed of. */
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
   * A session of a spec that was accepted: its record is on disk when this resolves, and the apply begins.
   * Throws `conflict` where the name is in use, `unsupported` for certificates that the backend has no
   * place for.
   */
  async open(
    spec: DeploySpec,
    holder: Holder,
    link: SessionLink,
    certificates?: readonly HostCertificate[],
  ): Promise<DeploySession> {
    const { name } = spec;
    const attempt = `deploy ${name} in a session`;
    const held = this.#sessions.get(name);
    if (held) throw heldError(attempt, held);
    if (this.#applying.has(name)) throw existing(attempt, name);
    const token = crypto.getRandomValues(new Uint8Array(32)).toHex();
    const record: SessionRecord = {
      version: 1,
      name,
      token: await sha256(token),
      ...holder,
      createdAt: new Date().toISOString(),
      spec,
      ...(certificates && { certified: true as const }),
    };
    const session = new DeploySession(record, this.#parts, certificates);
    // Once more: hashing gave way to others.
    const other = this.#sessions.get(name);
    if (other) throw heldError(attempt, other);
    this.#sessions.set(name, session);
    try {
      const backend = await this.#parts.backend();
      requireCertificates(backend, certificates);
      if (await backend.status(name)) throw existing(attempt, name);
      await this.#records.save(record);
    } catch (error) {
      this.#sessions.delete(name);
      throw error;
    }
    session.attach(link, token);
    return session;
  }

  /** Throws `not_found` where there is no such session, or it is another one. */
  async resume(name: string, token: string, link: SessionLink): Promise<DeploySession> {
    const session = this.#sessions.get(name);
    // It may end while the secret is looked at.
    if (!session || !await session.knows(token) || this.#sessions.get(name) !== session) {
      throw new SvcError(
        "not_found",
        `Cannot resume the session of ${name}: there is none, or it is another one`,
        { help: "it was not resumed in time, and its deployment is removed; deploy again" },
      );
    }
    session.attach(link, token);
    return session;
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

/** The server's end: asks a session's caller for the values of a credential. */
import type { CredentialReply } from "../api/credentials.ts";
import { SvcError } from "../base/errors.ts";
import { sleep } from "../base/sleep.ts";
import type { SessionCaller } from "../wire/attached/callers.ts";
import { isLost } from "../wire/attached/session.ts";
import type { Duplex } from "../wire/duplex.ts";
import { LineReader } from "../wire/lines.ts";
import { relay } from "../wire/relay.ts";
import type { KeptCredential } from "./kept_source.ts";
import { throughCaller } from "./upstream.ts";

/** Characters of a caller's values in JSON, at most. */
const MAX_REPLY = 256 * 1024;
/** Characters of a caller's error that are passed on, at most. */
const MAX_REASON = 500;
/** Milliseconds before a request is repeated whose connection was lost. */
const PAUSE_MS = 100;
/** Milliseconds that a caller may take, lost connections included: its program may ask a person. */
const PATIENCE_MS = 3 * 60_000;

const failed = (name: string, why: string, cause?: unknown) =>
  new SvcError("upstream_failed", `Cannot get credential ${name} of the caller: ${why}`, {
    cause,
    help: "see what the caller's `svc deploy` prints",
  });

/** Throws `upstream_failed` for anything but a reply with values. */
function checkReply(name: string, value: unknown): KeptCredential {
  const { values, error, expiration, renewInMs } = Object(value) as Record<string, unknown>;
  if (typeof error === "string") {
    throw failed(name, error.replace(/^Cannot make [^:]*: /, "").slice(0, MAX_REASON));
  }
  const isMap = typeof values === "object" && values !== null && !Array.isArray(values) &&
    Object.values(values).every((one) => typeof one === "string");
  const ends = expiration === undefined ? undefined : new Date(String(expiration));
  const isTime = ends === undefined || !Number.isNaN(ends.getTime());
  if (!isMap || !isTime || renewInMs !== undefined && !Number.isFinite(renewInMs)) {
    throw failed(name, "its answer cannot be read");
  }
  return {
    values: values as Record<string, string>,
    ...(ends && { expiration: ends }),
    ...(renewInMs !== undefined && { renewInMs: Math.max(0, renewInMs as number) }),
  };
}

type Asked = Pick<SessionCaller, "open" | "ended">;

/** Asks one session's caller. The values are kept nowhere: whoever asked has them. */
export class CredentialAsker {
  readonly #caller: Pick<SessionCaller, "open" | "ended">;
  readonly #patienceMs: number;
  readonly #asking = new Map<string, Promise<KeptCredential>>();

  constructor(caller: Asked, patienceMs = PATIENCE_MS) {
    this.#caller = caller;
    this.#patienceMs = patienceMs;
  }

  /** Several who ask for one credential at once share the answer. Throws `upstream_failed` or `unavailable`. */
  get(name: string): Promise<KeptCredential> {
    const under = this.#asking.get(name);
    if (under) return under;
    const asking = this.#ask(name).finally(() => this.#asking.delete(name));
    this.#asking.set(name, asking);
    return asking;
  }

  /** Has the caller send a workload's request on, with the credential added. `path`: below the upstream's own. */
  async send(name: string, request: Request, path: string, signal: AbortSignal): Promise<Response> {
    const both = AbortSignal.any([signal, request.signal]);
    const fields = { name, upstream: true };
    const stream = await this.#caller.open("credential", fields, { signal: both });
    return await throughCaller(stream, request, path, both);
  }

  /** Joins a companion's stream to the caller's: what it asks and is answered passes through. */
  async lead(stream: Duplex, name: string, upstream: boolean): Promise<void> {
    const fields = { name, ...upstream && { upstream } };
    const late = AbortSignal.timeout(this.#patienceMs);
    await relay(stream, await this.#caller.open("credential", fields, { signal: late }));
  }

  async #ask(name: string): Promise<KeptCredential> {
    const late = AbortSignal.timeout(this.#patienceMs);
    for (;;) {
      try {
        return checkReply(name, await this.#exchange(name, late));
      } catch (error) {
        if (late.aborted) throw failed(name, "it does not answer", error);
        // The connection was lost under way: the next one is waited for.
        if (!isLost(error)) throw error;
        await sleep(PAUSE_MS, late).catch(() => {/* told by the next turn */});
      }
    }
  }

  async #exchange(name: string, late: AbortSignal): Promise<CredentialReply | undefined> {
    const stream = await this.#caller.open("credential", { name }, { signal: late });
    const end = () => stream.reset();
    late.addEventListener("abort", end, { once: true });
    try {
      await stream.closeWrite();
      return await new LineReader(stream, MAX_REPLY).line<CredentialReply>();
    } finally {
      late.removeEventListener("abort", end);
      stream.reset();
    }
  }
}

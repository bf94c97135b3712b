/**
 * The client of the Docker Engine API, which podman speaks too. Each call has a connection of its own. Bodies
 * are streams both ways. Throws `unavailable` where the daemon cannot be reached or goes away, `timeout` where it
 * is silent, `upstream_failed` for answers that are none of the API, and else the daemon's own words with the
 * code of its status (errors.ts).
 */
import { readAtMost } from "../base/collect.ts";
import { SvcError } from "../base/errors.ts";
import { deadline } from "../base/deadline.ts";
import type { Duplex } from "../wire/duplex.ts";
import { type DockerDialer, dockerDialer } from "./dial.ts";
import type { DockerEndpoint } from "./endpoint.ts";
import {
  broken,
  type DaemonWords,
  refusalOf,
  rubbish,
  silent,
  speaksTls,
  unreachable,
  WITHOUT_TLS,
} from "./errors.ts";
import { type Answer, exchange, type Outcome } from "./exchange.ts";

/** The oldest version that has everything that svc needs: Docker 20.10. */
const OLDEST = "1.41";
/** The newest version that svc knows: Docker 28.3. */
const NEWEST = "1.51";
/** The name of svc's own API among its components (lib/dockerapi/system/routes.ts). */
export const OWN_NAME = "svc";
/** Milliseconds until the head of an answer. */
const HEAD_MS = 120_000;
/** Bytes of an answer that is read as a whole. */
const MAX_JSON = 64 * 1024 ** 2;
const MAX_WORDS = 64 * 1024;

export interface CallOptions {
  /** GET where absent, POST where there is a body. */
  method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the API's version: "/containers/json". */
  path: string;
  /** Objects and lists are sent as JSON; absent and false values are left out. */
  query?: Readonly<Record<string, unknown>>;
  /** Sent as JSON. */
  json?: unknown;
  /** A tar on its way in. Cancelled where the daemon answers before its end. */
  body?: ReadableStream<Uint8Array>;
  headers?: Readonly<Record<string, string>>;
  /** What the errors say was attempted: "Cannot start container web-0". */
  attempted: string;
  signal?: AbortSignal;
  /** Milliseconds until the head of the answer; Infinity for calls that answer when they are done. */
  headMs?: number;
  /** The path is no part of the Docker API's version: podman's own routes, `/_ping`. */
  unversioned?: boolean;
}

export interface Daemon {
  /** The version of the API that calls use. */
  api: string;
  /** The daemon's own version: "20.10.24". */
  version: string;
  os: string;
  arch: string;
  /** Its components: "Engine", "Podman Engine", "containerd". */
  components: string[];
}

export interface DockerClientOptions {
  endpoint: DockerEndpoint;
  /** The daemon's name in errors; default "the Docker daemon". */
  product?: string;
  /** What to do where it cannot be reached. */
  help?: string;
  /** See {@linkcode CallOptions}; default 120000. */
  headMs?: number;
}

interface VersionAnswer {
  Version?: string;
  ApiVersion?: string;
  MinAPIVersion?: string;
  Os?: string;
  Arch?: string;
  Components?: { Name?: string }[];
}

const numbers = (version: string) => version.split(".").map(Number);

/** Less than 0 where `a` is the older version; "1.9" is older than "1.41". */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [numbers(a), numbers(b)];
  return one[0] - other[0] || (one[1] ?? 0) - (other[1] ?? 0);
}

export class DockerClient implements AsyncDisposable {
  readonly words: DaemonWords;
  /** True where the daemon shares this server's host, as far as its address tells. */
  readonly local: boolean;
  readonly #dialer: DockerDialer;
  readonly #headMs: number;
  #daemon: Promise<Daemon> | undefined;

  constructor({ endpoint, product = "the Docker daemon", help, headMs }: DockerClientOptions) {
    this.words = {
      product,
      address: endpoint.address,
      help: help ?? "start the daemon, or set DOCKER_HOST to the one to use",
    };
    this.local = endpoint.kind === "unix";
    this.#dialer = dockerDialer(endpoint, product);
    this.#headMs = headMs ?? HEAD_MS;
  }

  /** What the daemon is. Asked once, and again after it was lost. Throws `unsupported` for an old one. */
  daemon(): Promise<Daemon> {
    if (!this.#daemon) {
      const asked = this.#ask();
      this.#daemon = asked;
      asked.catch(() => {
        if (this.#daemon === asked) this.#daemon = undefined;
      });
    }
    return this.#daemon;
  }

  async #ask(): Promise<Daemon> {
    const attempted = `Cannot use ${this.words.product}`;
    const found = await this.json<VersionAnswer>({
      path: "/version",
      unversioned: true,
      attempted,
    });
    // `svc daemon docker` speaks this API for a svc server, which may be this one: each call would lead in a circle.
    if (found.Components?.some(({ Name }) => Name === OWN_NAME)) {
      throw new SvcError(
        "config_invalid",
        `${attempted}: at ${this.words.address} is svc itself, which would deploy to itself`,
        { help: "set DOCKER_HOST to the engine's own address; `svc daemon docker` is for clients" },
      );
    }
    const { ApiVersion: newest, MinAPIVersion: oldest = OLDEST, Version: version } = found;
    if (typeof newest !== "string" || !/^\d+\.\d+$/.test(newest)) {
      throw rubbish(this.words, attempted, "without a version of its API");
    }
    if (compareVersions(newest, OLDEST) < 0 || compareVersions(oldest, NEWEST) > 0) {
      throw new SvcError(
        "unsupported",
        `${attempted}: it has versions ${oldest} to ${newest} of the API, svc has ${OLDEST} to ${NEWEST}`,
        { help: "use Docker 20.10 or a later one" },
      );
    }
    return {
      api: compareVersions(newest, NEWEST) < 0 ? newest : NEWEST,
      version: version ?? "",
      os: found.Os ?? "",
      arch: found.Arch ?? "",
      components: (found.Components ?? []).flatMap(({ Name }) => Name ?? []),
    };
  }

  /** The answer's head, of status 2xx or 304 (nothing to change), and its body: read it or cancel it. */
  async call(options: CallOptions): Promise<Answer> {
    const outcome = await this.#begin(options, {});
    if ("answer" in outcome) return await this.#accepted(options.attempted, outcome.answer);
    outcome.upgraded.reset();
    throw rubbish(this.words, options.attempted, "with another protocol");
  }

  /** The answer's JSON; undefined where it has no body. */
  async json<T>(options: CallOptions): Promise<T> {
    const { body } = await this.call(options);
    const bytes = await this.#whole(body, options.attempted, MAX_JSON);
    if (bytes.length === 0) return undefined as T;
    try {
      return JSON.parse(new TextDecoder().decode(bytes)) as T;
    } catch (error) {
      throw rubbish(this.words, options.attempted, "with what is no JSON", error);
    }
  }

  /** Makes the call, for its effect. */
  async run(options: CallOptions): Promise<void> {
    const { body } = await this.call(options);
    await this.#whole(body, options.attempted, MAX_JSON);
  }

  /** The answer's body, with back pressure; it errors with `unavailable` where it is cut off. */
  async stream(options: CallOptions): Promise<ReadableStream<Uint8Array>> {
    return (await this.call(options)).body;
  }

  /** The connection of an exec or an attach. Ending its write side ends the command's input. */
  async upgrade(options: CallOptions, protocol = "tcp"): Promise<Duplex> {
    const outcome = await this.#begin({ method: "POST", ...options }, {
      connection: "Upgrade",
      upgrade: protocol,
    });
    if ("upgraded" in outcome) return outcome.upgraded;
    const { status, body } = await this.#accepted(options.attempted, outcome.answer);
    await body.cancel();
    throw rubbish(this.words, options.attempted, `${status}, and did not hand over its connection`);
  }

  async #begin(options: CallOptions, more: Record<string, string>): Promise<Outcome> {
    const { path, query = {}, json, body, headers = {}, attempted, unversioned } = options;
    const { method = json === undefined && body === undefined ? "GET" : "POST" } = options;
    const signal = options.signal ?? new AbortController().signal;
    signal.throwIfAborted();
    const prefix = unversioned ? "" : `/v${(await this.daemon()).api}`;
    const headMs = options.headMs ?? this.#headMs;
    const stop = new AbortController();
    const giveUp = () => stop.abort(signal.reason);
    signal.addEventListener("abort", giveUp, { once: true });
    using _limit = untilHead(stop, headMs, () => silent(this.words, attempted, headMs));
    const sent = json === undefined ? undefined : new TextEncoder().encode(JSON.stringify(json));
    const lost = (error: unknown) => {
      this.#daemon = undefined;
      return error instanceof SvcError ? error : broken(this.words, attempted, error);
    };
    let socket;
    try {
      socket = await this.#dialer.dial(stop.signal);
    } catch (error) {
      signal.removeEventListener("abort", giveUp);
      await body?.cancel(error);
      if (stop.signal.aborted) throw stop.signal.reason;
      this.#daemon = undefined;
      throw unreachable(this.words, error);
    }
    socket.once("close", () => signal.removeEventListener("abort", giveUp));
    try {
      return await exchange(socket, {
        method,
        path: `${prefix}${path}${queryText(query)}`,
        headers: {
          host: "docker",
          ...(sent && { "content-type": "application/json", "content-length": `${sent.length}` }),
          ...(body && { "content-type": "application/x-tar" }),
          ...(method === "POST" && !sent && !body && { "content-length": "0" }),
          ...headers,
          ...more,
        },
        body: sent ?? body,
        signal: stop.signal,
      }, lost);
    } catch (error) {
      if (stop.signal.aborted) throw stop.signal.reason;
      throw lost(error);
    }
  }

  /** Throws the daemon's words for a status of 400 and above. */
  async #accepted(attempted: string, answer: Answer): Promise<Answer> {
    const { status, body } = answer;
    if ((status >= 200 && status < 300) || status === 304) return answer;
    const bytes = await this.#whole(body, attempted, MAX_WORDS);
    const text = new TextDecoder().decode(bytes).trim();
    if (status < 400) throw rubbish(this.words, attempted, `${status}`);
    // Another daemon is there than the one that was asked for its version.
    if (/client version \S+ is too/.test(text)) this.#daemon = undefined;
    if (status === 400 && WITHOUT_TLS.test(text)) throw speaksTls(this.words);
    const { words = `it answered ${status} ${text}`.trim(), cause } = wordsOf(text);
    throw refusalOf(attempted, status, words, cause);
  }

  #whole(
    body: ReadableStream<Uint8Array>,
    attempted: string,
    limit: number,
  ): Promise<Uint8Array> {
    return readAtMost(
      body,
      limit,
      () => rubbish(this.words, attempted, `with more than ${limit} bytes`),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dialer[Symbol.asyncDispose]();
  }
}

function untilHead(stop: AbortController, ms: number, late: () => Error): Disposable {
  const limit = deadline(Number.isFinite(ms) ? ms : undefined, late, new AbortController().signal);
  limit.signal.addEventListener("abort", () => stop.abort(limit.signal.reason), { once: true });
  return limit;
}

/** The daemon's words in its JSON; podman adds their cause, and Incus calls them an error. */
function wordsOf(text: string): { words?: string; cause?: string } {
  try {
    const { message: said, error, cause } = JSON.parse(text) as Record<string, unknown>;
    const message = said ?? error;
    return {
      ...(typeof message === "string" && message !== "" && { words: message.trim() }),
      ...(typeof cause === "string" && { cause }),
    };
  } catch {
    return {}; // a proxy's page, or plain words
  }
}

function queryText(query: Readonly<Record<string, unknown>>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === false) continue;
    params.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

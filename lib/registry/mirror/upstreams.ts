/** Which upstream a repository comes from, and whether that upstream can be asked now. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ImageSource, ReadOptions } from "../../oci/image.ts";
import type { Digest } from "../../oci/types.ts";
import { instanceName, isCircle, mirrorsIn, viaField } from "./via.ts";

/** Another registry. Streams of whole blobs are verified, and resume by themselves where a connection breaks. */
export interface UpstreamSource extends ImageSource {
  /** The digest of a tag, without transferring the manifest; no digest where the upstream does not tell it. */
  head(
    repository: string,
    reference: string,
    options?: ReadOptions,
  ): Promise<{ digest?: Digest } | undefined>;
  /** The same registry, with this Via field in requests to it. */
  through?(via: string): UpstreamSource;
}

export interface Upstream {
  /**
   * Repositories "prefix/rest" come from this upstream, where their name is "rest"; the longest prefix wins.
   * Absent: all other repositories, by their own names.
   */
  prefix?: string;
  /** For messages and the log. */
  host: string;
  source: UpstreamSource;
}

const DOWN = new Set<string>(["upstream_failed", "server_unreachable", "timeout", "unavailable"]);

/** True where the upstream could not be reached, or could not answer. */
export function isDown(error: unknown): boolean {
  return error instanceof SvcError && DOWN.has(error.code) ||
    error instanceof DOMException && error.name === "TimeoutError";
}

/** True where the upstream refuses access: many do so for content that does not exist. */
export function isRefusal(error: unknown): boolean {
  return error instanceof SvcError && (error.code === "unauthorized" || error.code === "denied");
}

/** Milliseconds between two warnings about one circle of mirrors. */
const WARN_MS = 60_000;

/** One upstream, and whether it answers. */
class Health {
  #until = 0;
  #error: unknown;
  #warned = -WARN_MS;

  constructor(
    readonly upstream: Upstream,
    private readonly pauseMs: number,
    private readonly log: Logger,
    private readonly now: () => number,
  ) {}

  async ask<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    // Otherwise every request would wait for the timeout of an upstream that hangs.
    if (this.now() < this.#until) throw this.#error;
    try {
      const answer = await work();
      this.#error = undefined;
      return answer;
    } catch (error) {
      if (!isDown(error) || signal?.aborted) throw error;
      if (this.#error === undefined) {
        this.log.warn("an upstream does not answer", { host: this.upstream.host, error });
      }
      this.#error = error;
      this.#until = this.now() + this.pauseMs;
      throw error;
    }
  }

  /** Warns that a request of this server came back to it. */
  warnOfCircle(repository: string, mirrors: readonly string[]): void {
    if (performance.now() < this.#warned + WARN_MS) return;
    this.#warned = performance.now();
    this.log.warn(
      "the mirrors form a circle: a request came back to the server that began it, and is answered " +
        "from what is here; change SVC_REGISTRY_MIRROR at one of them",
      { host: this.upstream.host, repository, mirrors: mirrors.join(" ") },
    );
  }
}

/** A repository of an upstream. */
export interface Origin {
  host: string;
  /**
   * Differs for requests that came through different mirrors. Such requests must not share one question: two
   * mirrors that ask each other would wait for themselves.
   */
  way: string;
  /** The repository's name at the upstream. */
  repository: string;
  /**
   * Asks the upstream. If the upstream failed a moment ago, throws that failure again instead. `signal` is the
   * one that `work` uses: an aborted request does not count as a failure of the upstream.
   */
  ask<T>(
    work: (source: UpstreamSource, repository: string) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T>;
}

export class Upstreams {
  readonly name = instanceName();
  #rules: Health[];

  constructor(
    upstreams: readonly Upstream[],
    options: { pauseMs: number; log: Logger; now?: () => number },
  ) {
    const { pauseMs, log, now = () => performance.now() } = options;
    this.#rules = upstreams
      .toSorted((a, b) => (b.prefix ?? "").length - (a.prefix ?? "").length)
      .map((upstream) => new Health(upstream, pauseMs, log, now));
  }

  /**
   * The upstream of a repository. Undefined: no upstream serves it, or the Via field `via` shows that the request
   * has passed this server before. In that case the mirrors form a circle, and asking again would not end.
   */
  find(local: string, via?: string): Origin | undefined {
    const mirrors = mirrorsIn(via);
    for (const health of this.#rules) {
      const { prefix, host, source } = health.upstream;
      if (prefix !== undefined && !local.startsWith(`${prefix}/`)) continue;
      const name = prefix === undefined ? local : local.slice(prefix.length + 1);
      // docker.io keeps images with one-word names there.
      const repository = host === "docker.io" && !name.includes("/") ? `library/${name}` : name;
      if (isCircle(mirrors, this.name)) {
        health.warnOfCircle(local, mirrors);
        return undefined;
      }
      return {
        host,
        repository,
        way: mirrors.join(),
        ask: (work, signal) =>
          health.ask(() => {
            const asked = source.through?.(viaField(mirrors, this.name)) ?? source;
            return work(asked, repository);
          }, signal),
      };
    }
    return undefined;
  }
}

/** Which upstream a repository comes from, and whether it is worth asking at the moment. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { ImageSource, ReadOptions } from "../../oci/image.ts";
import type { Digest } from "../../oci/types.ts";
import { instanceName, isCircle, mirrorsIn, viaField } from "./via.ts";

/** Another registry. Whole-blob streams are verified, and go on by themselves where a connection breaks. */
export interface UpstreamSource extends ImageSource {
  /** What a tag names, without moving the manifest; no digest where the upstream does not say. */
  head(
    repository: string,
    reference: string,
    options?: ReadOptions,
  ): Promise<{ digest?: Digest } | undefined>;
  /** The same registry, asked with this Via field. */
  through?(via: string): UpstreamSource;
}

export interface Upstream {
  /**
   * Repositories "prefix/rest" come from here, where they are "rest"; the longest prefix wins. Absent:
   * every other repository, by its own name.
   */
  prefix?: string;
  /** For messages and the log. */
  host: string;
  source: UpstreamSource;
}

const DOWN = new Set<string>(["upstream_failed", "server_unreachable", "timeout", "unavailable"]);

/** True where the upstream could not be asked, or was not able to answer. */
export function isDown(error: unknown): boolean {
  return error instanceof SvcError && DOWN.has(error.code) ||
    error instanceof DOMException && error.name === "TimeoutError";
}

/** True where the upstream does not show this to us: many say so of what does not exist. */
export function isRefusal(error: unknown): boolean {
  return error instanceof SvcError && (error.code === "unauthorized" || error.code === "denied");
}

/** Milliseconds between two warnings of one circle. */
const WARN_MS = 60_000;

/** One upstream and how it fares. */
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
    // An upstream that hangs would otherwise hold up every request for as long as one.
    if (this.now() < this.#until) throw this.#error;
    try {
      const answer = await work();
      this.#error = undefined;
      return answer;
    } catch (error) {
      if (!isDown(error) || signal?.aborted) throw error;
      if (this.#error === undefined) {
        this.log.warn("an upstream cannot be asked", { host: this.upstream.host, error });
      }
      this.#error = error;
      this.#until = this.now() + this.pauseMs;
      throw error;
    }
  }

  /** Tells that a request of this server's came back to it. */
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
   * Differs for requests that came through other mirrors. Two that wait for each other's answer must not
   * share one question: it would wait for itself.
   */
  way: string;
  /** Its name there. */
  repository: string;
  /**
   * Asks, unless the upstream failed a moment ago: then that failure is thrown again. `signal` is the
   * one that `work` uses, so that a caller who left, or had little time, does not count as a failure.
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
   * Undefined: the repository is ours alone, or the request, whose Via field is `via`, has been here
   * before: then its upstream is where it comes from, and has nothing.
   */
  find(local: string, via?: string): Origin | undefined {
    const mirrors = mirrorsIn(via);
    for (const health of this.#rules) {
      const { prefix, host, source } = health.upstream;
      if (prefix !== undefined && !local.startsWith(`${prefix}/`)) continue;
      const name = prefix === undefined ? local : local.slice(prefix.length + 1);
      // docker.io keeps the images that are named by one word there.
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

/** What a mirror is made of. */
import type { Logger } from "../../base/log.ts";
import type { ContentStore } from "../../store/content_store.ts";
import type { ObjectStore } from "../../store/object_store.ts";
import type { Recent } from "./recent.ts";
import type { Upstream, Upstreams } from "./upstreams.ts";

export interface MirrorOptions {
  /** The local registry: asked first. Fetched content is kept here. */
  store: ContentStore;
  /** The object store below `store`, for the mirror's own small records. */
  objects: ObjectStore;
  upstreams: readonly Upstream[];
  /** False: nothing of an upstream is written, neither here nor in `spool`. */
  cache: boolean;
  /** A folder on disk for the mirror alone: its old contents are removed. */
  spool: string;
  log: Logger;
  /** Milliseconds for which a tag's digest counts as fresh; default 30000. */
  freshMs?: number;
  /** Milliseconds for which "not found" and "unreachable" hold for an upstream; default 5000. */
  pauseMs?: number;
  /**
   * Milliseconds that an upstream has to answer where there is a fallback: a tag in the store is served stale,
   * a push's question is answered "not there". Default 5000.
   */
  revalidateMs?: number;
  /** Milliseconds on a clock that never goes back; default `performance.now`. */
  now?: () => number;
}

/** What the parts of one mirror share. */
export interface MirrorContext extends Required<Omit<MirrorOptions, "upstreams">> {
  upstreams: Upstreams;
  /**
   * Repositories that somebody pushes to: a client asked for a blob's head, or uploads a blob. Questions about
   * them are answered without an upstream that is down, so that pushes do not depend on it.
   */
  pushing: Recent<true>;
  /** Aborts when the mirror is closed. */
  life: AbortSignal;
}

/** Milliseconds after which a push without activity counts as ended. */
export const PUSH_MS = 10 * 60_000;

/** Limits a probe's wait for an upstream. */
export function probeSignal(
  { revalidateMs }: MirrorContext,
  signal?: AbortSignal,
  probe?: boolean,
): AbortSignal | undefined {
  if (!probe) return signal;
  const timeout = AbortSignal.timeout(revalidateMs);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

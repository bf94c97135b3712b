/** What a mirror is made of. */
import type { Logger } from "../../base/log.ts";
import type { ContentStore } from "../../store/content_store.ts";
import type { ObjectStore } from "../../store/object_store.ts";
import type { Recent } from "./recent.ts";
import type { Upstream, Upstreams } from "./upstreams.ts";

export interface MirrorOptions {
  /** The local registry: asked first, and where what was fetched is kept. */
  store: ContentStore;
  /** The object store below it, for the mirror's own small records. */
  objects: ObjectStore;
  upstreams: readonly Upstream[];
  /** False: nothing of an upstream is written, neither here nor in `spool`. */
  cache: boolean;
  /** A folder on disk that is the mirror's alone: what is left in it is removed. */
  spool: string;
  log: Logger;
  /** Milliseconds for which a tag is taken to name what it named upstream; default 30000. */
  freshMs?: number;
  /** Milliseconds for which "not there" and "cannot be asked" hold; default 5000. */
  pauseMs?: number;
  /**
   * Milliseconds that an upstream has where there is an answer without it: a tag that is here is served
   * stale, a push's question is answered "not there". Default 5000.
   */
  revalidateMs?: number;
  /** Milliseconds on a clock that never goes back; default `performance.now`. */
  now?: () => number;
}

/** What the parts of one mirror share. */
export interface MirrorContext extends Required<Omit<MirrorOptions, "upstreams">> {
  upstreams: Upstreams;
  /**
   * Repositories that somebody pushes to: who asks for a blob's head, or uploads one. Their questions are
   * answered without an upstream that is down, so that pushes do not need it.
   */
  pushing: Recent<true>;
  /** Aborts when the mirror is closed. */
  life: AbortSignal;
}

/** A push that does nothing for so long has ended. */
export const PUSH_MS = 10 * 60_000;

/** A probe waits for an upstream only so long. */
export function probeSignal(
  { revalidateMs }: MirrorContext,
  signal?: AbortSignal,
  probe?: boolean,
): AbortSignal | undefined {
  if (!probe) return signal;
  const timeout = AbortSignal.timeout(revalidateMs);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

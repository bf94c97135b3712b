/** What users of a 9P client give it, and get from it. */
import type { Patience } from "../patience.ts";
import type { Qid } from "./messages.ts";

/** Patience: how long requests may wait without a part of any answer, and how many bytes have to come meanwhile. */
export interface NinepClientOptions extends Omit<Patience, "late"> {
  /** Bytes of a message, at most. */
  maxMessage?: number;
  /**
   * Default true: the server does requests that name the same fid in their order, as ours does (server.ts), so that
   * requests that build on each other are sent together.
   */
  inOrder?: boolean;
  /** Asks for the version of svc's own mounts (messages.ts), which an older svc does not have. Default false. */
  own?: boolean;
}

/** A walk under way. */
export interface Walk {
  fid: number;
  /** The file's qid; undefined where the walk had no names. Throws {@linkcode FileError}. */
  found: Promise<Qid | undefined>;
}

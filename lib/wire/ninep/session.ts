import type { FileNode } from "../files/node.ts";
import type { Telling } from "../known/telling.ts";
import type { Fids } from "./fids.ts";

/** The state that a connection's requests share. */
export interface Session {
  readonly exports: ReadonlyMap<string, FileNode>;
  readonly fids: Fids;
  /** Negotiated bytes of a message; 0 before. */
  msize: number;
  /** The client speaks {@linkcode OWN_VERSION}. */
  own: boolean;
  /** Each request waits for the changes before it ({@linkcode T.ORDER}). */
  ordered: boolean;
  onRead?: (bytes: number) => void;
  /** The folders that the client is told of. */
  readonly telling: Telling;
}

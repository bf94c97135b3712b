/** What passes between pack.ts and its Worker. */
import type { Digest } from "../../oci/types.ts";

/** Most of level 6's gain at half its cost. */
export const GZIP_LEVEL = 4;

export type ToPacker = { type: "chunk"; bytes: Uint8Array<ArrayBuffer> } | { type: "end" };

export type FromPacker =
  | { type: "taken"; bytes: number }
  | { type: "chunk"; bytes: Uint8Array<ArrayBuffer> }
  | { type: "done"; diffID: Digest; digest: Digest; size: number; plainSize: number }
  | { type: "error"; message: string };

/** Messages between the store and the thread that receives uploads. */
import type { DigestAlgorithm } from "../../../lib/oci/digest.ts";

export interface ReceiveJob {
  type: "receive";
  job: number;
  /** A non-blocking socket; the sender closes it. */
  socket: number;
  /** The upload's file and its valid bytes. */
  path: string;
  offset: number;
  /** Bytes of the body; undefined: it is chunked. */
  length: number | undefined;
  /** The body's first bytes, in their transfer coding. */
  prefix: Uint8Array;
  /** Most bytes the body may have. */
  limit: number;
  algorithm: DigestAlgorithm;
}

export interface DigestJob {
  type: "digest";
  job: number;
  path: string;
  size: number;
  algorithm: DigestAlgorithm;
}

/** "forget": the file is no longer an upload, so its hash may be dropped. `job`: the job to stop. */
export type Ask = ReceiveJob | DigestJob | { type: "forget"; path: string } | {
  type: "stop";
  job: number;
};

export type Outcome =
  /** `rest`: bytes that were read behind the body. */
  | { how: "whole"; rest: Uint8Array }
  | { how: "broken" | "malformed" | "too long" | "stopped" }
  /** A system call failed. */
  | { how: "failed"; errno: number; message: string };

export type Tell =
  | { type: "moved"; job: number; bytes: number }
  /** `written`: bytes of the body that are in the file. */
  | { type: "received"; job: number; written: number; outcome: Outcome }
  | { type: "digest"; job: number; digest: string }
  | { type: "failed"; job: number; message: string };

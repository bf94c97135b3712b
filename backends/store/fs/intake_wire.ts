/** What the store and the thread that takes in uploads say to each other. */
import type { DigestAlgorithm } from "../../../lib/oci/digest.ts";

export interface ReceiveJob {
  type: "receive";
  job: number;
  /** Socket that does not wait; stays the sender's to close. */
  socket: number;
  /** The upload's file, and how much of it counts. */
  path: string;
  offset: number;
  /** Bytes of the body; undefined: chunks. */
  length: number | undefined;
  /** The body's first bytes, in its framing. */
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

/** The file is closed to uploads: what is known of it may go. `job`: stop that one. */
export type Ask = ReceiveJob | DigestJob | { type: "forget"; path: string } | {
  type: "stop";
  job: number;
};

export type Outcome =
  /** `rest`: bytes read behind the body. */
  | { how: "whole"; rest: Uint8Array }
  | { how: "broken" | "malformed" | "too long" | "stopped" }
  /** Of a system call. */
  | { how: "failed"; errno: number; message: string };

export type Tell =
  | { type: "moved"; job: number; bytes: number }
  /** `written`: bytes of the body that are in the file. */
  | { type: "received"; job: number; written: number; outcome: Outcome }
  | { type: "digest"; job: number; digest: string }
  | { type: "failed"; job: number; message: string };

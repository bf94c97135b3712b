/**
 * The operations of one bucket that svc uses: what a kind of object storage implements. Above it stands one
 * store for all of them (store.ts), with resumable uploads whose state is in the bucket (uploads.ts).
 *
 * Keys are relative to the location's prefix. Bodies are bytes, so that every request can be tried again:
 * an implementation does so a bounded number of times, and ends every wait. Refusals of the service are
 * thrown as `ServiceError` (errors.ts) where nothing else is said.
 */

import type { Timeouts } from "./http.ts";

export interface BucketOptions {
  /** Where the standard credential chains begin. */
  env?: Readonly<Record<string, string | undefined>>;
  timeouts?: Partial<Timeouts>;
  /** Attempts per request, the first included. */
  attempts?: number;
}

export const ATTEMPTS = 4;

export interface Call {
  signal?: AbortSignal;
}

export interface Head {
  size: number;
  /** Changes with the content; opaque. */
  etag: string;
  modified: Date;
}

export interface Part {
  /** From 1. */
  number: number;
  etag: string;
}

export interface ListedPart extends Part {
  size: number;
  modified: Date;
}

export interface Page {
  objects: { key: string; size: number; modified: Date }[];
  prefixes: string[];
  /** Where the next page begins; absent: that was the last. */
  next?: string;
}

/** A stretch of an object. */
export interface Piece {
  key: string;
  start: number;
  /** Inclusive. */
  end: number;
}

export interface Join {
  /** Whole objects, in order; at least one. */
  sources: readonly string[];
  /** Comes last; may be empty. */
  tail: Uint8Array;
  key: string;
  /** Throws (412) where there is an object. */
  ifAbsent: boolean;
  /** Begins the names of what is there only meanwhile. */
  scratch: string;
}

export interface Bucket {
  /** Without credentials: for messages and logs. */
  readonly shown: string;
  /** Throws `config_invalid` for what the environment lacks. */
  ready(): Promise<void>;
  /** Missing: undefined. */
  head(key: string, call?: Call): Promise<Head | undefined>;
  /**
   * Bytes `start` to `end` (inclusive; absent: the rest). Missing: undefined. `etag`: throws (412) where
   * the object is no longer that one. `start` behind the end throws (416). `total` is the whole object's
   * size.
   */
  get(
    key: string,
    range: { start: number; end?: number },
    call?: Call & { etag?: string },
  ): Promise<(Head & { total: number; body: ReadableStream<Uint8Array> }) | undefined>;
  /** Atomic and durable. `ifAbsent` throws (412) where there is an object and the service can tell. */
  put(key: string, body: Uint8Array, call?: Call & { ifAbsent?: boolean }): Promise<void>;
  /** Idempotent. */
  delete(key: string, call?: Call): Promise<void>;
  /** One page, in byte order, after `after` (which it may hold, where the service cannot leave it out). */
  list(
    prefix: string,
    options?: Call & { after?: string; token?: string; delimiter?: "/"; limit?: number },
  ): Promise<Page>;
  /** The new multipart upload's id. Its parts cannot be seen before it is completed. */
  createMultipart(key: string, call?: Call): Promise<string>;
  /** `unsealed`: throws `NoSuchUpload` where another server made an object of the parts so far. */
  uploadPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array,
    call?: Call & { unsealed?: boolean },
  ): Promise<Part>;
  /** Copies inside the service; 501 where it cannot. */
  copyPart(
    from: Piece,
    key: string,
    uploadId: string,
    number: number,
    call?: Call,
  ): Promise<Part>;
  /** Parts in order. Missing upload, or one that is over: undefined. */
  listParts(key: string, uploadId: string, call?: Call): Promise<ListedPart[] | undefined>;
  /** Atomic. A missing upload throws `NoSuchUpload`. */
  complete(
    key: string,
    uploadId: string,
    parts: Part[],
    call?: Call & { ifAbsent?: boolean },
  ): Promise<void>;
  /** Idempotent. */
  abortMultipart(key: string, uploadId: string, call?: Call): Promise<void>;
  /** Makes one object of others inside the service, atomic: where that is cheaper than parts. */
  join?(what: Join, call?: Call): Promise<void>;
  /** An address that gives the object without credentials for `seconds`. Undefined: cannot be signed. */
  signedUrl?(key: string, seconds: number, call?: Call): Promise<string | undefined>;
  /** `error` as the store's callers know it. */
  fail(error: unknown, attempted: string): unknown;
  close(): void;
}

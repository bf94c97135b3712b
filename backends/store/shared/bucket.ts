/**
 * The bucket operations that svc uses: each kind of object storage implements them. One store for all kinds is
 * above them (store.ts), with resumable uploads whose state is in the bucket (uploads.ts). Keys are relative to
 * the location's prefix. Bodies are byte arrays, so that every request can be retried: an implementation
 * retries a bounded number of times and ends every wait. Errors of the service are thrown as `ServiceError`
 * (errors.ts), unless stated otherwise.
 */

import type { Timeouts } from "./http.ts";

export interface BucketOptions {
  /** The standard credential chains begin with this environment. */
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
  /** Where the next page begins; absent: this was the last page. */
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
  /** Throws (412) where the object exists. */
  ifAbsent: boolean;
  /** Begins the names of temporary objects. */
  scratch: string;
}

export interface Bucket {
  /** Without credentials: for messages and logs. */
  readonly shown: string;
  /** Throws `config_invalid` where the environment lacks something. */
  ready(): Promise<void>;
  /** Missing: undefined. */
  head(key: string, call?: Call): Promise<Head | undefined>;
  /**
   * Bytes `start` to `end` (inclusive; absent: the rest). Missing: undefined. `etag`: throws (412) where the
   * object has another one. A `start` past the end throws (416). `total` is the whole object's size.
   */
  get(
    key: string,
    range: { start: number; end?: number },
    call?: Call & { etag?: string },
  ): Promise<(Head & { total: number; body: ReadableStream<Uint8Array> }) | undefined>;
  /** Atomic and durable. `ifAbsent` throws (412) where the object exists, if the service supports conditions. */
  put(key: string, body: Uint8Array, call?: Call & { ifAbsent?: boolean }): Promise<void>;
  /** Idempotent. */
  delete(key: string, call?: Call): Promise<void>;
  /** One page in byte order after `after`, which the page may include where the service cannot leave it out. */
  list(
    prefix: string,
    options?: Call & { after?: string; token?: string; delimiter?: "/"; limit?: number },
  ): Promise<Page>;
  /** Begins a multipart upload and returns its id. Its parts are invisible until it is completed. */
  createMultipart(key: string, call?: Call): Promise<string>;
  /** `unsealed`: throws `NoSuchUpload` where another server has joined the parts so far into an object. */
  uploadPart(
    key: string,
    uploadId: string,
    number: number,
    body: Uint8Array,
    call?: Call & { unsealed?: boolean },
  ): Promise<Part>;
  /** Copies within the service; 501 where the service cannot. */
  copyPart(
    from: Piece,
    key: string,
    uploadId: string,
    number: number,
    call?: Call,
  ): Promise<Part>;
  /** The parts in order. Undefined: the upload is missing or has ended. */
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
  /** Atomically joins objects into one within the service, where that is cheaper than parts. */
  join?(what: Join, call?: Call): Promise<void>;
  /** An address from which anyone can get the object for `seconds`. Undefined: it cannot be signed. */
  signedUrl?(key: string, seconds: number, call?: Call): Promise<string | undefined>;
  /** Turns `error` into one that the store's callers know. */
  fail(error: unknown, attempted: string): unknown;
  close(): void;
}

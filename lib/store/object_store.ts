/**
 * Bytes by key: what a storage backend implements. It knows no OCI. Keys are `/`-separated, made of
 * `[A-Za-z0-9._:+%-]` segments, never empty, never "." or "..".
 *
 * Every implementation passes `test/contract/object_store.ts`.
 */
import { SvcError } from "../base/errors.ts";
import type { LentConnection } from "../base/request_body.ts";
import type { DigestAlgorithm } from "../oci/digest.ts";
import type { ByteRange } from "../oci/image.ts";
import type { Digest } from "../oci/types.ts";

export interface ObjectInfo {
  key: string;
  /** Bytes. */
  size: number;
  modified: Date;
}

/** A listing's entry: an object, or with `delimiter` a common prefix that ends with it. */
export type ListEntry = ObjectInfo | { prefix: string };

export interface ObjectBody {
  /** Bytes that `stream` yields: the range's length where a range was asked for. */
  size: number;
  /** Size of the whole object. */
  total: number;
  modified: Date;
  /** May be called once. Where it is not called, there is nothing to release. */
  stream(): ReadableStream<Uint8Array>;
  /** The local file that holds the bytes from `offset` on, where there is one. */
  file?: { path: string; offset: number };
}

/** Throws `internal` where a key breaks the rule above: a defect of the caller, never of a request. */
export function checkKey(key: string): void {
  if (!/^[A-Za-z0-9._:+%-]+(?:\/[A-Za-z0-9._:+%-]+)*$/.test(key) || /(^|\/)\.\.?(\/|$)/.test(key)) {
    throw new SvcError("internal", `Cannot use object key ${JSON.stringify(key)}`);
  }
}

export interface CallOptions {
  signal?: AbortSignal;
}

export interface ObjectStore extends AsyncDisposable {
  /**
   * True where no other process writes this store while it is open (a locked folder, memory): then reads may be
   * remembered. A bucket, which other replicas write too, says false.
   */
  readonly exclusive: boolean;
  /** Missing: undefined. A range that begins past the end throws `range_invalid`. */
  get(key: string, options?: CallOptions & { range?: ByteRange }): Promise<ObjectBody | undefined>;
  /** A small object as a whole, where the store can read it more cheaply than by `get`. Missing: undefined. */
  read?(key: string, options?: CallOptions): Promise<Uint8Array | undefined>;
  /**
   * Atomic and durable: readers see all of it or none, and it survives a crash once this resolves.
   * `ifAbsent` leaves an existing object alone and resolves to `created: false`.
   */
  put(
    key: string,
    body: Uint8Array | ReadableStream<Uint8Array>,
    options?: CallOptions & { size?: number; ifAbsent?: boolean },
  ): Promise<{ created: boolean }>;
  /**
   * Turns a file of this machine into an object without a copy, where the store can. The file keeps its name,
   * and nobody may write to it any more. Replaces an existing object, as durable as `put`. False: nothing was
   * done.
   */
  adopt?(key: string, path: string, options?: CallOptions): Promise<boolean>;
  stat(key: string, options?: CallOptions): Promise<ObjectInfo | undefined>;
  /** Idempotent and durable; false where the object did not exist. */
  delete(key: string, options?: CallOptions): Promise<boolean>;
  /**
   * Deletes many objects in any order, where the store can do that more cheaply than one by one. Not durable:
   * after a power cut the caller finds and deletes them again. A failed call may have deleted some.
   */
  deleteAll?(keys: string[], options?: CallOptions): Promise<void>;
  /**
   * Lists in byte order of keys, strictly after `after`. `prefix` is empty or ends with "/"; of a store that is not
   * `exclusive` it may be any beginning of keys. With `delimiter`, all deeper keys become one `{prefix}` (ending
   * with "/"), and `after` may be one. `brief`: only the keys are needed; size and time are 0 where they would cost a
   * call each. `limit`: a hint that no more entries are wanted.
   */
  list(
    prefix: string,
    options?: CallOptions & { after?: string; delimiter?: "/"; brief?: boolean; limit?: number },
  ): AsyncIterable<ListEntry>;
  /**
   * An address from which anyone can get the object for `seconds` without credentials. The call does not check
   * whether the object exists. Undefined: these credentials cannot sign. Absent: the store has no addresses.
   */
  signedUrl?(key: string, options: CallOptions & { seconds: number }): Promise<string | undefined>;
  /** Appendable objects that become visible under a key at the end: resumable uploads. */
  uploads: UploadStore;
}

/** Uploads outlive connections and restarts; they are not objects until committed. */
export interface UploadStore {
  /** `id` is new and made of `[A-Za-z0-9-]`. */
  create(id: string, options?: CallOptions): Promise<UploadFile>;
  /** Missing: undefined. After a crash `offset` is at least the acknowledged one. */
  open(id: string, options?: CallOptions): Promise<UploadFile | undefined>;
  list(options?: CallOptions): AsyncIterable<{ id: string; modified: Date; size: number }>;
}

/** One appender at a time: the content store above serialises calls per upload. */
export interface UploadFile {
  readonly id: string;
  /** Bytes held so far. */
  readonly offset: number;
  /** Appends one buffer; the caller may reuse it when this resolves. */
  write(chunk: Uint8Array): Promise<void>;
  /** Makes all written bytes survive a crash. */
  flush(): Promise<void>;
  /** The bytes held so far, from the start: to re-hash after a restart. */
  read(): ReadableStream<Uint8Array>;
  /**
   * Moves the bytes to `key`, atomic and durable. Without `replace`, an existing object of the same size may
   * stay: such keys are digests of their bytes. Ends the upload.
   */
  commit(key: string, options?: { replace?: boolean }): Promise<void>;
  /** Drops the upload. Idempotent. */
  abort(): Promise<void>;
  /** Releases handles; the upload stays and can be opened again. */
  close(): Promise<void>;
  /**
   * False where this handle is out of date (another server continued or ended the upload, or a write failed):
   * close it and open the upload again. Absent where a handle cannot become out of date.
   */
  current?(): Promise<boolean>;
  /** Takes bodies directly from their connections, where it can. */
  intake?: UploadIntake;
  /**
   * The sha256 digest of all bytes held, where the store computes it as they come. It verifies the bytes itself
   * then, and has no other algorithm: `read` is never called.
   */
  digest?(): Promise<Digest>;
}

export interface UploadIntake {
  /**
   * Appends a body that is still on its connection, then gives the connection back. However it ends, the bytes
   * that arrived are appended and count in `offset`. Throws the reason of an early end: `size_invalid` past
   * `limit` bytes, `cancelled` where the connection broke off, the signal's reason.
   */
  receive(
    source: LentConnection,
    options: {
      /** The algorithm that {@linkcode UploadIntake.digest} will probably be called with. */
      algorithm: DigestAlgorithm;
      limit?: number;
      signal: AbortSignal;
      moved: (bytes: number) => void;
    },
  ): Promise<void>;
  /** The digest of all bytes held; cheap for bytes that came by `receive`. */
  digest(algorithm: DigestAlgorithm): Promise<Digest>;
}

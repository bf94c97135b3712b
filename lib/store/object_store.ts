/**
 * Bytes by key: what a storage backend implements. It knows no OCI. Keys are `/`-separated, made of
 * `[A-Za-z0-9._:+%-]` segments, never empty, never "." or "..".
 *
 * Every implementation passes `test/contract/object_store.ts`.
 */
import { SvcError } from "../base/errors.ts";
import type { RawSource } from "../base/raw_body.ts";
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

/** Some of the objects that a scan passes. */
export interface ScanPage {
  keys: string[];
  /** What they hold, where that was asked for; other bytes once the next page is asked for. */
  contents?: Uint8Array[];
}

export interface ObjectBody {
  /** Bytes that `stream` yields: the range's length where a range was asked for. */
  size: number;
  /** Size of the whole object. */
  total: number;
  modified: Date;
  /** May be called once. Not called: nothing to release. */
  stream(): ReadableStream<Uint8Array>;
  /** Local file that holds the bytes from `offset`, where there is one. */
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
   * True where nobody else writes this store while it is open (a locked folder, memory): what was read may
   * be remembered. A bucket, which other replicas write too, says false.
   */
  readonly exclusive: boolean;
  /** Missing: undefined. A range that begins past the end throws `range_invalid`. */
  get(key: string, options?: CallOptions & { range?: ByteRange }): Promise<ObjectBody | undefined>;
  /** A small object as a whole, where the store has a cheaper way to it than `get`. Missing: undefined. */
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
   * Puts a file of this machine without a copy, where it can: the file keeps its name, and nobody may write
   * to it any more. Replaces what is there, as durable as `put`. False: nothing was done.
   */
  adopt?(key: string, path: string, options?: CallOptions): Promise<boolean>;
  stat(key: string, options?: CallOptions): Promise<ObjectInfo | undefined>;
  /** Idempotent; false where there was nothing. Durable. */
  delete(key: string, options?: CallOptions): Promise<boolean>;
  /**
   * Deletes many, where the store can do that for less than one by one; in any order. Not durable: what
   * a power cut brings back, its caller finds and deletes again. Of a call that fails some may be gone.
   */
  deleteAll?(keys: string[], options?: CallOptions): Promise<void>;
  /**
   * In byte order of keys, strictly after `after`. `prefix` is empty or ends with "/"; with `delimiter`
   * what lies deeper is one `{prefix}` (ending with "/"), and `after` may be one. `brief`: only the keys
   * are needed; size and time are 0 where they would cost a call each. `limit`: no more entries are
   * wanted, which is a hint.
   */
  list(
    prefix: string,
    options?: CallOptions & { after?: string; delimiter?: "/"; brief?: boolean; limit?: number },
  ): AsyncIterable<ListEntry>;
  /**
   * All objects below `prefix`, in no order, a page at a time; `bytes`: with what these (small) objects
   * hold. Where the store passes many for less than it takes to list and read them one by one.
   */
  scan?(
    prefix: string,
    options?: CallOptions & { bytes?: boolean },
  ): AsyncIterable<ScanPage>;
  /**
   * An address that gives the object to whoever asks within `seconds`, without credentials of theirs.
   * Whether there is such an object is not looked at. Undefined: these credentials cannot sign. Absent: the
   * store has no addresses.
   */
  signedUrl?(key: string, options: CallOptions & { seconds: number }): Promise<string | undefined>;
  /** Appendable objects that become visible under a key at the end: resumable uploads. */
  uploads: UploadStore;
}

/** Uploads outlive connections and restarts; they are not objects until committed. */
export interface UploadStore {
  /** `id` is new and made of `[A-Za-z0-9-]`. */
  create(id: string, options?: CallOptions): Promise<UploadFile>;
  /** Missing: undefined. After a crash `offset` is what was acknowledged, or more; never less. */
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
  /** Makes what was written survive a crash. */
  flush(): Promise<void>;
  /** The bytes held so far, from the start: to re-hash after a restart. */
  read(): ReadableStream<Uint8Array>;
  /**
   * Moves the bytes to `key`, atomic and durable. An existing object of the same size may be left as it is,
   * unless `replace` is said: keys that uploads go to name their bytes. Ends the upload.
   */
  commit(key: string, options?: { replace?: boolean }): Promise<void>;
  /** Drops the upload. Idempotent. */
  abort(): Promise<void>;
  /** Releases handles; the upload stays and can be opened again. */
  close(): Promise<void>;
  /**
   * False where this handle is no longer what the store holds (another server went on with the upload or
   * ended it, or a write failed): close it and open the upload again. Absent where that cannot be.
   */
  current?(): Promise<boolean>;
  /** Takes bodies from their connections by itself, where it can. */
  intake?: UploadIntake;
}

export interface UploadIntake {
  /**
   * Appends a body that is still on its connection, which is given back. However it ends, what arrived is
   * appended and counts in `offset`. Throws what stopped it: `size_invalid` past `limit` bytes, `cancelled`
   * where the connection broke off, the signal's reason.
   */
  receive(
    source: RawSource,
    options: {
      /** What {@linkcode UploadIntake.digest} will probably be asked for. */
      algorithm: DigestAlgorithm;
      limit?: number;
      signal: AbortSignal;
      moved: (bytes: number) => void;
    },
  ): Promise<void>;
  /** The digest of all bytes held; cheap for those that were received. */
  digest(algorithm: DigestAlgorithm): Promise<Digest>;
}

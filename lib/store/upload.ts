/** An upload of a blob, as a client makes it: in parts, which are kept. */
import type { RequestBody } from "../base/request_body.ts";
import type { Digest } from "../oci/types.ts";
import type { CallOptions } from "./object_store.ts";

export interface Upload {
  readonly id: string;
  readonly repository: string;
  /** Bytes acknowledged so far. */
  readonly offset: number;
  /**
   * Appends; resolves with the new offset once the bytes are durable. Where the body breaks off, the bytes that
   * arrived are kept: the client asks for the offset and continues. Throws `range_invalid` where `at` is not
   * the current offset, `size_invalid` where the body has more than `limit` bytes (the surplus is not kept).
   */
  append(
    body: RequestBody,
    options?: CallOptions & { at?: number; limit?: number },
  ): Promise<number>;
  /** Verifies and publishes. Throws `digest_invalid` on mismatch and drops the upload. */
  commit(digest: Digest, options?: CallOptions): Promise<{ size: number }>;
  abort(): Promise<void>;
}

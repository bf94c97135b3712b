/**
 * Resumable uploads as a bucket's own multipart uploads.
 *
 * The name of the final object is its digest, known only at the end, so an upload's parts go to a multipart
 * upload of its own and the service copies them to their place when it is committed. Parts of a multipart
 * upload cannot be read before it is completed, and the digest of what a restarted server (or another one
 * on the same bucket) finds must be made again from the bytes: reading therefore completes the parts so
 * far to a segment, an object that the upload's later parts are joined to by server-side copies. That costs
 * something only where an upload changes hands; a flush in between costs one request for the bytes behind
 * the last whole part.
 *
 * All of an upload's state is in the bucket, below `uploads/<id>/` (see upload_state.ts). Memory: the part
 * that fills and the one on its way.
 */
import { SvcError } from "../../../lib/base/errors.ts";
import type { CallOptions, UploadFile, UploadStore } from "../../../lib/store/object_store.ts";
import { collect } from "./body.ts";
import type { Bucket } from "./bucket.ts";
import { isRefusedCondition } from "./errors.ts";
import { BucketUpload, type UploadHost } from "./upload.ts";
import { folderOf, listFolder, loadState, removeUpload, UPLOADS } from "./upload_state.ts";

const ID = /^[A-Za-z0-9-]{1,128}$/;
/** Bytes that idle uploads may keep in memory together. */
const KEPT = 64 * 1024 * 1024;

export class BucketUploads implements UploadStore {
  #host: UploadHost;
  /** Least recently flushed first. */
  #kept = new Map<BucketUpload, number>();

  constructor(
    private readonly bucket: Bucket,
    options: { conditional: boolean; objectKey: (key: string) => string },
  ) {
    this.#host = { bucket, ...options, kept: (upload, bytes) => this.#keep(upload, bytes) };
  }

  #keep(upload: BucketUpload, bytes: number): void {
    this.#kept.delete(upload);
    if (bytes === 0) return;
    this.#kept.set(upload, bytes);
    let total = 0;
    for (const held of this.#kept.values()) total += held;
    for (const [oldest, held] of this.#kept) {
      if (total <= KEPT) return;
      this.#kept.delete(oldest);
      oldest.release();
      total -= held;
    }
  }

  async create(id: string, options: CallOptions = {}): Promise<BucketUpload> {
    if (!ID.test(id)) throw new SvcError("blob_upload_unknown", `Cannot use upload id ${id}`);
    try {
      await this.#claim(`${folderOf(id)}created`, id, options);
    } catch (error) {
      throw this.bucket.fail(error, `start upload ${id}`);
    }
    return new BucketUpload(id, this.#host, { segments: [], offset: 0, modified: new Date() });
  }

  async #claim(key: string, id: string, call: CallOptions): Promise<void> {
    const exists = () => new SvcError("conflict", `Cannot start upload ${id}: it exists`);
    if (!this.#host.conditional && await this.bucket.head(key, call)) throw exists();
    const mark = crypto.randomUUID();
    try {
      const ifAbsent = this.#host.conditional;
      await this.bucket.put(key, new TextEncoder().encode(mark), { ...call, ifAbsent });
    } catch (error) {
      if (!isRefusedCondition(error)) throw error;
      // The mark may be ours: the answer to a first attempt may have been lost.
      const found = await this.bucket.get(key, { start: 0 }, call);
      const there = found && new TextDecoder().decode(await collect(found.body, found.size));
      if (there !== mark) throw exists();
    }
  }

  async open(id: string, options: CallOptions = {}): Promise<UploadFile | undefined> {
    if (!ID.test(id)) return undefined;
    try {
      const state = await loadState(this.bucket, id, options);
      if (state) return new BucketUpload(id, this.#host, state);
      // Leftovers of a server that was killed while it removed an upload.
      if ((await listFolder(this.bucket, id, options)).length > 0) {
        await removeUpload(this.bucket, id, options);
      }
      return undefined;
    } catch (error) {
      throw this.bucket.fail(error, `open upload ${id}`);
    }
  }

  async *list(options: CallOptions = {}): AsyncGenerator<
    { id: string; modified: Date; size: number }
  > {
    try {
      for (let token: string | undefined;;) {
        const page = await this.bucket.list(UPLOADS, { ...options, token, delimiter: "/" });
        for (const prefix of page.prefixes) {
          const id = prefix.slice(UPLOADS.length, -1);
          if (!ID.test(id)) continue;
          const objects = await listFolder(this.bucket, id, options);
          const state = await loadState(this.bucket, id, options);
          const newest = Math.max(0, ...objects.map(({ modified }) => modified.getTime()));
          if (objects.length === 0) continue;
          // An upload without a state consists of leftovers, which opening it removes.
          yield {
            id,
            modified: state?.modified ?? new Date(newest),
            size: state?.offset ?? 0,
          };
        }
        if (!(token = page.next)) return;
      }
    } catch (error) {
      throw this.bucket.fail(error, "list the uploads");
    }
  }
}

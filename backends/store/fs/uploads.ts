/** Uploads as appendable files beside the objects: publishing one is a rename on the same file system. */
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { ifThere, syncDir } from "../../../lib/base/fs.ts";
import type { LentConnection } from "../../../lib/base/request_body.ts";
import type { DigestAlgorithm } from "../../../lib/oci/digest.ts";
import type {
  CallOptions,
  UploadFile,
  UploadIntake,
  UploadStore,
} from "../../../lib/store/object_store.ts";
import { Intake } from "./intake.ts";
import type { Outcome } from "./intake_wire.ts";
import { readFile, writeAll, writeError } from "./io.ts";

const ID = /^[A-Za-z0-9-]{1,128}$/;

/** The error of a body that did not arrive whole. */
function shortfall(outcome: Outcome, id: string, limit: number | undefined): unknown {
  switch (outcome.how) {
    case "too long":
      return new SvcError(
        "size_invalid",
        `Cannot accept the body: it has more than ${limit} bytes`,
      );
    case "malformed":
      return new SvcError("body_malformed", "Cannot receive the body: its chunks are malformed");
    case "failed":
      return writeError(
        Object.assign(new Error(outcome.message), { code: FULL[outcome.errno] }),
        `write upload ${id}`,
      );
    default:
      return new SvcError("cancelled", "Cannot receive the body: the connection broke off");
  }
}

/** Error numbers for a full disk or quota. */
const FULL: Record<number, string> = { 28: "ENOSPC", 122: "EDQUOT" };

class FsUpload implements UploadFile {
  #file: Deno.FsFile | undefined;
  #dirty = true;
  readonly intake: UploadIntake = {
    receive: (source, options) => this.#receive(source, options),
    digest: (algorithm) => this.taker.digest(this.path, this.offset, algorithm),
  };

  constructor(
    readonly id: string,
    readonly path: string,
    file: Deno.FsFile,
    public offset: number,
    private readonly publish: (path: string, key: string) => Promise<void>,
    private readonly taker: Intake,
  ) {
    this.#file = file;
  }

  async #receive(
    source: LentConnection,
    { limit, ...options }: {
      algorithm: DigestAlgorithm;
      limit?: number;
      signal: AbortSignal;
      moved: (bytes: number) => void;
    },
  ): Promise<void> {
    const file = this.#open;
    const { path, offset } = this;
    this.#dirty = true;
    const { written, outcome } = await this.taker.receive(source, {
      ...options,
      path,
      offset,
      limit: limit ?? Number.MAX_SAFE_INTEGER,
    });
    this.offset += written;
    if (outcome.how === "failed") await file.truncate(this.offset).catch(() => {});
    await file.seek(this.offset, Deno.SeekMode.Start);
    if (outcome.how === "stopped") throw options.signal.reason;
    if (outcome.how !== "whole") throw shortfall(outcome, this.id, limit);
  }

  get #open(): Deno.FsFile {
    if (!this.#file) throw new SvcError("internal", `Cannot use upload ${this.id}: it is closed`);
    return this.#file;
  }

  async write(chunk: Uint8Array): Promise<void> {
    const file = this.#open;
    this.#dirty = true;
    try {
      await writeAll(file, chunk);
      this.offset += chunk.length;
    } catch (error) {
      // Cuts off what a failed write left behind the offset: the next write begins at the offset.
      await file.truncate(this.offset).catch(() => {});
      await file.seek(this.offset, Deno.SeekMode.Start).catch(() => {});
      throw writeError(error, `write upload ${this.id}`);
    }
  }

  async flush(): Promise<void> {
    if (!this.#dirty) return;
    await this.#open.sync().catch((error) => {
      throw writeError(error, `write upload ${this.id}`);
    });
    this.#dirty = false;
  }

  read(): ReadableStream<Uint8Array> {
    return readFile(this.path, 0, this.offset);
  }

  async commit(key: string): Promise<void> {
    await this.flush();
    await this.publish(this.path, key);
    this.taker.forget(this.path);
    await this.close();
  }

  async abort(): Promise<void> {
    this.taker.forget(this.path);
    await this.close();
    await ifThere(Deno.remove(this.path));
  }

  close(): Promise<void> {
    this.#file?.close();
    this.#file = undefined;
    return Promise.resolve();
  }
}

/** `publish` moves a file to a key, atomic and durable, and replaces an existing object. */
export class FsUploads implements UploadStore {
  readonly #taker = new Intake();

  constructor(
    private readonly root: string,
    private readonly publish: (path: string, key: string) => Promise<void>,
  ) {}

  #path(id: string): string {
    if (!ID.test(id)) throw new SvcError("blob_upload_unknown", `Cannot use upload id ${id}`);
    return join(this.root, id);
  }

  async create(id: string, options: CallOptions = {}): Promise<UploadFile> {
    options.signal?.throwIfAborted();
    const path = this.#path(id);
    const file = await Deno.open(path, { read: true, write: true, createNew: true }).catch(
      (error) => {
        throw writeError(error, `start upload ${id}`);
      },
    );
    await syncDir(this.root);
    return new FsUpload(id, path, file, 0, this.publish, this.#taker);
  }

  async open(id: string, options: CallOptions = {}): Promise<UploadFile | undefined> {
    options.signal?.throwIfAborted();
    if (!ID.test(id)) return undefined;
    const path = this.#path(id);
    try {
      const file = await Deno.open(path, { read: true, write: true });
      try {
        // A second name: the server died after publishing. Appending would change the object.
        if (((await file.stat()).nlink ?? 1) > 1) {
          file.close();
          await Deno.remove(path);
          return undefined;
        }
        const offset = await file.seek(0, Deno.SeekMode.End);
        return new FsUpload(id, path, file, offset, this.publish, this.#taker);
      } catch (error) {
        file.close();
        throw error;
      }
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    }
  }

  /** Stops all receiving. */
  close(): void {
    this.#taker.close();
  }

  async *list(options: CallOptions = {}): AsyncGenerator<
    { id: string; modified: Date; size: number }
  > {
    for await (const entry of Deno.readDir(this.root)) {
      options.signal?.throwIfAborted();
      if (!entry.isFile || !ID.test(entry.name)) continue;
      const info = await ifThere(Deno.stat(join(this.root, entry.name)));
      if (info) yield { id: entry.name, modified: info.mtime ?? new Date(0), size: info.size };
    }
  }
}

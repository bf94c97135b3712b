/**
 * Resumable uploads as writes of containerd's content store ("ingests"). They outlive connections, this server and
 * containerd; the lease under which they began keeps them until it ends. containerd hashes what it gets.
 */
import { SvcError } from "../../base/errors.ts";
import { digestOfKey } from "../../store/keys.ts";
import type { UploadFile, UploadStore } from "../../store/object_store.ts";
import type { Digest } from "../../oci/types.ts";
import type { ContainerdClient } from "../client.ts";
import { Content, STAT, WRITE } from "../image_api.ts";
import {
  beginWrite,
  commitWrite,
  dropWrite,
  ended,
  leaveWrite,
  orMissing,
  type WriteAnswer,
  type WriteHead,
  type Writing,
} from "../writing.ts";

export interface IngestsOptions {
  client: ContainerdClient;
  /** Marks this server's writes. */
  owner: string;
  /** Gives the lease that keeps new writes. */
  under: <T>(work: (lease: string) => Promise<T>) => Promise<T>;
}

/** What a request may name: anything else was not made by `create`. */
const ID = /^[A-Za-z0-9-]{1,100}$/;

const ATTEMPTED = "Cannot write the upload to containerd";

export class Ingests implements UploadStore {
  readonly #options: IngestsOptions;
  readonly #prefix: string;

  constructor(options: IngestsOptions) {
    this.#options = options;
    this.#prefix = `svc-${options.owner}-upload-`;
  }

  async create(id: string): Promise<UploadFile> {
    const file = new Ingest(id, this.#prefix + id, this.#options);
    await file.begin();
    return file;
  }

  async open(id: string): Promise<UploadFile | undefined> {
    if (!ID.test(id)) return undefined;
    const ref = this.#prefix + id;
    const { client } = this.#options;
    if (!await orMissing(client.call(Content.status, { ref }, ATTEMPTED))) return undefined;
    return await this.create(id);
  }

  async *list(): ReturnType<UploadStore["list"]> {
    const { client } = this.#options;
    const { statuses } = await client.call(Content.statuses, {}, "Cannot list uploads");
    for (const { ref, offset, updatedAt } of statuses) {
      if (!ref.startsWith(this.#prefix)) continue;
      const modified = new Date((updatedAt?.seconds ?? 0) * 1000);
      yield { id: ref.slice(this.#prefix.length), modified, size: offset };
    }
  }
}

class Ingest implements UploadFile {
  #offset = 0;
  #call: Writing | undefined;

  constructor(
    readonly id: string,
    private readonly ref: string,
    private readonly options: IngestsOptions,
  ) {}

  get offset(): number {
    return this.#offset;
  }

  /** Makes the write, or goes on with what is held of it. */
  async begin(): Promise<void> {
    const { client, under } = this.options;
    const begun = await under((lease) => beginWrite(client, this.#head(), ATTEMPTED, { lease }));
    this.#call = begun.call;
    this.#offset = begun.offset;
  }

  async write(data: Uint8Array): Promise<void> {
    await this.#ask({ ...this.#head(), action: WRITE, offset: this.#offset, data });
    this.#offset += data.length;
  }

  /** containerd has every byte that it acknowledged; it syncs them when the upload is committed. */
  flush(): Promise<void> {
    return Promise.resolve();
  }

  read(): ReadableStream<Uint8Array> {
    throw new SvcError("internal", "Cannot read an upload back from containerd");
  }

  async digest(): Promise<Digest> {
    return (await this.#ask({ ...this.#head(), action: STAT })).digest;
  }

  async commit(key: string): Promise<void> {
    using call = this.#writing();
    const head = { ...this.#head(), total: this.#offset, expected: digestOfKey(key)! };
    this.#call = undefined;
    await commitWrite(this.options.client, call, head, { attempted: ATTEMPTED, options: {} });
  }

  async abort(): Promise<void> {
    await this.close();
    await dropWrite(this.options.client, this.ref);
  }

  async close(): Promise<void> {
    using call = this.#call;
    this.#call = undefined;
    if (call) await leaveWrite(call);
  }

  current(): Promise<boolean> {
    return Promise.resolve(this.#call?.open ?? false);
  }

  #head(): WriteHead {
    return { ref: this.ref, total: 0, expected: "" };
  }

  #writing(): Writing {
    if (this.#call) return this.#call;
    throw new SvcError("unavailable", `${ATTEMPTED}: an earlier write of it failed`, {
      help: "ask how much of it is there, and go on from there",
    });
  }

  async #ask(message: Parameters<Writing["send"]>[0]): Promise<WriteAnswer> {
    const call = this.#writing();
    try {
      await call.send(message);
      const answer = await call.receive();
      if (!answer) throw ended(ATTEMPTED);
      return answer;
    } catch (error) {
      // How much is held is asked for when the upload goes on.
      await this.close();
      throw error;
    }
  }
}

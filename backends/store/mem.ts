/** Objects in this process's memory, lost when it ends: tests and throwaway servers. */
import { SvcError } from "../../lib/base/errors.ts";
import type { ByteRange } from "../../lib/oci/image.ts";
import {
  type CallOptions,
  checkKey,
  type ListEntry,
  type ObjectBody,
  type ObjectInfo,
  type ObjectStore,
  type UploadFile,
  type UploadStore,
} from "../../lib/store/object_store.ts";
import { resolveRange } from "../../lib/store/range.ts";

/** An object's bytes in the pieces in which they came: joining them would need twice the memory. */
interface Held {
  pieces: Uint8Array[];
  size: number;
  modified: Date;
}

function* slices(held: Held, offset: number, size: number): Generator<Uint8Array> {
  let skip = offset;
  let left = size;
  for (const piece of held.pieces) {
    if (left === 0) return;
    if (skip >= piece.length) {
      skip -= piece.length;
      continue;
    }
    // A copy: a reader that transfers or changes its chunk must not change the object.
    const part = piece.slice(skip, skip + left);
    skip = 0;
    left -= part.length;
    yield part;
  }
}

function streamOf(held: Held, offset: number, size: number): ReadableStream<Uint8Array> {
  const parts = slices(held, offset, size);
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      const next = parts.next();
      if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
  }, { highWaterMark: 0 });
}

export function openMemStore(): ObjectStore {
  return new MemStore();
}

class MemStore implements ObjectStore {
  readonly exclusive = true;
  readonly uploads: UploadStore;
  #objects = new Map<string, Held>();
  /** The sorted keys; undefined after a key was added or removed. */
  #sorted: string[] | undefined;

  constructor() {
    this.uploads = new MemUploads((key, held) => this.#set(key, held, false));
  }

  #set(key: string, held: Held, keep: boolean): boolean {
    checkKey(key);
    const there = this.#objects.has(key);
    if (there && keep) return false;
    if (!there) this.#sorted = undefined;
    this.#objects.set(key, held);
    return true;
  }

  async get(
    key: string,
    options: CallOptions & { range?: ByteRange } = {},
  ): Promise<ObjectBody | undefined> {
    options.signal?.throwIfAborted();
    const held = this.#objects.get(key);
    if (!held) return undefined;
    const { offset, size } = resolveRange(options.range, held.size, key);
    return {
      size,
      total: held.size,
      modified: held.modified,
      stream: () => streamOf(held, offset, size),
    };
  }

  async stat(key: string, options: CallOptions = {}): Promise<ObjectInfo | undefined> {
    options.signal?.throwIfAborted();
    const held = this.#objects.get(key);
    return held && { key, size: held.size, modified: held.modified };
  }

  async put(
    key: string,
    body: Uint8Array | ReadableStream<Uint8Array>,
    options: CallOptions & { size?: number; ifAbsent?: boolean } = {},
  ): Promise<{ created: boolean }> {
    options.signal?.throwIfAborted();
    const held: Held = { pieces: [], size: 0, modified: new Date() };
    for await (const chunk of body instanceof Uint8Array ? [body] : body) {
      options.signal?.throwIfAborted();
      held.pieces.push(chunk.slice());
      held.size += chunk.length;
    }
    if (options.size !== undefined && held.size !== options.size) {
      throw new SvcError(
        "size_invalid",
        `Cannot store ${key}: expected ${options.size} bytes, got ${held.size}`,
      );
    }
    return { created: this.#set(key, held, options.ifAbsent ?? false) };
  }

  async delete(key: string, options: CallOptions = {}): Promise<boolean> {
    options.signal?.throwIfAborted();
    const there = this.#objects.delete(key);
    if (there) this.#sorted = undefined;
    return there;
  }

  async *list(
    prefix: string,
    options: CallOptions & { after?: string; delimiter?: "/" } = {},
  ): AsyncGenerator<ListEntry> {
    const keys = this.#sorted ??= [...this.#objects.keys()].sort((a, b) => a < b ? -1 : 1);
    const { after = "", delimiter, signal } = options;
    let group: string | undefined;
    for (let at = lowerBound(keys, prefix > after ? prefix : after); at < keys.length; at++) {
      signal?.throwIfAborted();
      const key = keys[at];
      if (!key.startsWith(prefix)) break;
      const slash = delimiter ? key.indexOf(delimiter, prefix.length) : -1;
      if (slash >= 0) {
        const common = key.slice(0, slash + 1);
        if (common === group || common <= after) continue;
        yield { prefix: group = common };
        continue;
      }
      const held = key > after && this.#objects.get(key);
      if (held) yield { key, size: held.size, modified: held.modified };
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve();
  }
}

/** Index of the first key that is not before `wanted`. */
function lowerBound(keys: string[], wanted: string): number {
  let [low, high] = [0, keys.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keys[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

type Publish = (key: string, held: Held) => void;

class MemUploads implements UploadStore {
  #uploads = new Map<string, Held>();

  constructor(private readonly publish: Publish) {}

  async create(id: string, options: CallOptions = {}): Promise<UploadFile> {
    options.signal?.throwIfAborted();
    if (this.#uploads.has(id)) {
      throw new SvcError("conflict", `Cannot start upload ${id}: it exists`);
    }
    const held: Held = { pieces: [], size: 0, modified: new Date() };
    this.#uploads.set(id, held);
    return this.#file(id, held);
  }

  async open(id: string, options: CallOptions = {}): Promise<UploadFile | undefined> {
    options.signal?.throwIfAborted();
    const held = this.#uploads.get(id);
    return held && this.#file(id, held);
  }

  async *list(options: CallOptions = {}): AsyncGenerator<
    { id: string; modified: Date; size: number }
  > {
    for (const [id, held] of this.#uploads) {
      options.signal?.throwIfAborted();
      yield { id, modified: held.modified, size: held.size };
    }
  }

  #file(id: string, held: Held): UploadFile {
    const uploads = this.#uploads;
    const publish = this.publish;
    return {
      id,
      get offset() {
        return held.size;
      },
      async write(chunk) {
        held.pieces.push(chunk.slice());
        held.size += chunk.length;
        held.modified = new Date();
      },
      async flush() {},
      read: () => streamOf(held, 0, held.size),
      async commit(key) {
        publish(key, held);
        uploads.delete(id);
      },
      async abort() {
        uploads.delete(id);
      },
      async close() {},
    };
  }
}

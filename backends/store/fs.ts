/**
 * Objects as files of one folder:
 *
 *     objects/<key>    visible objects, complete and durable
 *     uploads/<id>     resumable uploads; they outlive a restart
 *     tmp/             writes under way; emptied when the store is opened
 *     svc-store.json   says that the folder is ours and in which format
 *     lock             held while open; names the holder's process id
 *
 * All stand on one file system, so that publishing is a rename or a link, atomic by POSIX.
 */
import { dirname, join, resolve } from "node:path";
import { SvcError, systemCode } from "../../lib/base/errors.ts";
import { closeToOthers, ensureDir, readJson, syncDir, writeFileAtomic } from "../../lib/base/fs.ts";
import type { ByteRange } from "../../lib/oci/image.ts";
import {
  type CallOptions,
  checkKey,
  type ListEntry,
  type ObjectBody,
  type ObjectInfo,
  type ObjectStore,
} from "../../lib/store/object_store.ts";
import { resolveRange } from "../../lib/store/range.ts";
import { readExactly, readFile, streamOf, writeAll, writeError, writeStream } from "./fs/io.ts";
import { walk } from "./fs/listing.ts";
import { DurableFolders } from "./fs/paths.ts";
import { FsUploads } from "./fs/uploads.ts";

const FORMAT = 1;
/** Objects (or ranges) up to this many bytes are read at once. */
const SMALL = 64 * 1024;
/** Keys remembered as recently read, or as durable. */
const REMEMBERED = 10_000;
/** Folders that are emptied at once. */
const REMOVERS = 8;
const MARKER = "svc-store.json";

const isMissing = (error: unknown) =>
  error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;

async function claim(root: string): Promise<void> {
  const marker = await readJson<{ format?: number }>(join(root, MARKER)).catch((error) => {
    throw new SvcError("data_dir_foreign", `Cannot open store ${root}: ${MARKER} is not readable`, {
      cause: error,
    });
  });
  if (marker) {
    if (marker.format === FORMAT) return;
    throw new SvcError(
      "data_dir_foreign",
      `Cannot open store ${root}: its format is ${marker.format}, this svc knows ${FORMAT}`,
    );
  }
  for await (const entry of Deno.readDir(root)) {
    // `lock` is left from a first start that ended before the marker; ext4 makes the other folder.
    if (entry.name === "lock" || entry.name === "lost+found") continue;
    throw new SvcError(
      "data_dir_foreign",
      `Cannot open store ${root}: it holds ${JSON.stringify(entry.name)} and no ${MARKER}, ` +
        `so svc did not make it`,
    );
  }
  await writeFileAtomic(join(root, MARKER), `${JSON.stringify({ format: FORMAT })}\n`);
}

async function lock(root: string): Promise<Deno.FsFile> {
  const path = join(root, "lock");
  const file = await Deno.open(path, { read: true, write: true, create: true });
  if (await file.tryLock(true)) {
    await file.truncate(0);
    await file.write(new TextEncoder().encode(`${Deno.pid}\n`));
    return file;
  }
  file.close();
  const holder = (await Deno.readTextFile(path)).trim();
  throw new SvcError(
    "data_dir_locked",
    `Cannot open store ${root}: process ${holder || "(unknown)"} has it open`,
  );
}

/**
 * Opens or creates the store in `path`. Throws `data_dir_locked` where another server has it open and
 * `data_dir_foreign` where the folder holds something else.
 */
export async function openFsStore(path: string): Promise<ObjectStore> {
  const root = resolve(path);
  try {
    await ensureDir(dirname(root));
    await ensureDir(root, 0o700);
  } catch (error) {
    throw new SvcError(
      "data_dir_foreign",
      `Cannot create store ${root}: ${(error as Error).message}`,
      { cause: error, help: "choose a folder that this user may write" },
    );
  }
  const held = await lock(root);
  try {
    await claim(root);
    // Only the registry decides who may read images. A volume of another user keeps its mode.
    await closeToOthers(root);
    // Nobody else writes here while the lock is held: tmp holds leftovers of a killed server.
    await Deno.remove(join(root, "tmp"), { recursive: true }).catch((error) => {
      if (!isMissing(error)) throw error;
    });
    for (const name of ["objects", "uploads", "tmp"]) await ensureDir(join(root, name));
    return new FsStore(root, held);
  } catch (error) {
    held.close();
    throw error;
  }
}

function remember(keys: Set<string>, key: string): void {
  keys.add(key);
  if (keys.size > REMEMBERED) keys.delete(keys.values().next().value!);
}

class FsStore implements ObjectStore {
  readonly exclusive = true;
  readonly uploads: FsUploads;
  #objects: string;
  #temporary: string;
  #folders = new DurableFolders();
  /** Keys that were recently read or written. */
  #warm = new Set<string>();
  /** Keys that are known to be durable: no call waits for their sync again. */
  #lasting = new Set<string>();
  #counter = 0;
  #lock: Deno.FsFile | undefined;

  constructor(root: string, held: Deno.FsFile) {
    this.#objects = join(root, "objects");
    this.#temporary = join(root, "tmp");
    this.#lock = held;
    // Replaces an existing object: the new bytes were verified, the old ones may be damaged.
    this.uploads = new FsUploads(join(root, "uploads"), async (path, key) => {
      await this.#publish(key, path, false);
    });
  }

  #path(key: string): string {
    checkKey(key);
    return join(this.#objects, key);
  }

  async get(
    key: string,
    options: CallOptions & { range?: ByteRange } = {},
  ): Promise<ObjectBody | undefined> {
    options.signal?.throwIfAborted();
    const path = this.#path(key);
    try {
      using file = await Deno.open(path);
      const info = await file.stat();
      if (!info.isFile) return undefined;
      const { offset, size } = resolveRange(options.range, info.size, key);
      const body = {
        size,
        total: info.size,
        modified: info.mtime ?? new Date(0),
        file: { path, offset },
      };
      if (size > SMALL) return { ...body, stream: () => readFile(path, offset, size, info) };
      // Another writer may replace a record before it is read: size and bytes must belong to the same object.
      const bytes = await readExactly(file, offset, size);
      return { ...body, stream: () => streamOf(bytes) };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async read(key: string, options: CallOptions = {}): Promise<Uint8Array | undefined> {
    options.signal?.throwIfAborted();
    try {
      // One system call, where an open file takes four.
      return await Deno.readFile(this.#path(key));
    } catch (error) {
      if (isMissing(error) || systemCode(error) === "EISDIR") return undefined;
      throw error;
    }
  }

  async stat(key: string, options: CallOptions = {}): Promise<ObjectInfo | undefined> {
    options.signal?.throwIfAborted();
    try {
      const path = this.#path(key);
      // A recently used file is in the kernel's cache: reading here takes a tenth of the time of another
      // thread.
      const warm = this.#warm.has(key);
      const info = warm ? Deno.statSync(path) : await Deno.stat(path);
      if (!info.isFile) return undefined;
      if (!warm) remember(this.#warm, key);
      return { key, size: info.size, modified: info.mtime ?? new Date(0) };
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async put(
    key: string,
    body: Uint8Array | ReadableStream<Uint8Array>,
    options: CallOptions & { size?: number; ifAbsent?: boolean } = {},
  ): Promise<{ created: boolean }> {
    const { signal, size, ifAbsent = false } = options;
    signal?.throwIfAborted();
    const path = this.#path(key);
    if (ifAbsent && await this.stat(key)) {
      if (!(body instanceof Uint8Array)) await body.cancel();
      // Its writer may not have synced the folder yet, and the caller relies on the object.
      if (!this.#lasting.has(key)) {
        await syncDir(dirname(path)).catch((error) => {
          if (!isMissing(error)) throw error;
        });
      }
      return { created: false };
    }
    const temporary = this.#unused();
    try {
      {
        using file = await Deno.open(temporary, { write: true, createNew: true });
        let written = body instanceof Uint8Array ? body.length : 0;
        if (body instanceof Uint8Array) await writeAll(file, body);
        else written = await writeStream(file, body, signal);
        if (size !== undefined && written !== size) {
          throw new SvcError(
            "size_invalid",
            `Cannot store ${key}: expected ${size} bytes, got ${written}`,
          );
        }
        await this.#sync(file, path);
      }
      signal?.throwIfAborted();
      const created = await this.#publish(key, temporary, ifAbsent);
      if (ifAbsent) await Deno.remove(temporary);
      return { created };
    } catch (error) {
      await Deno.remove(temporary).catch(() => {/* never made, or renamed */});
      throw writeError(error, `store ${key}`);
    }
  }

  async adopt(key: string, path: string, options: CallOptions = {}): Promise<boolean> {
    options.signal?.throwIfAborted();
    const to = this.#path(key);
    try {
      // A link cannot lead to another file system. Checked first, to save the sync.
      if (Deno.statSync(path).dev !== Deno.statSync(this.#objects).dev) return false;
      {
        using file = await Deno.open(path);
        await this.#sync(file, to);
      }
      const linked = this.#unused();
      await Deno.link(path, linked);
      try {
        await this.#publish(key, linked, false);
      } finally {
        // Where both names already belong to one file, renaming does nothing, and this name is left.
        await Deno.remove(linked).catch(() => {/* it was renamed */});
      }
      return true;
    } catch (error) {
      // The file system has no links, or the path is a mount of its own.
      if (["EXDEV", "EPERM", "EMLINK", "ENOTSUP"].includes(systemCode(error) ?? "")) return false;
      throw writeError(error, `store ${key}`);
    }
  }

  #unused(): string {
    return join(this.#temporary, `${Deno.pid}-${(this.#counter++).toString(36)}`);
  }

  /** Syncs a file while its target folder is being made. */
  async #sync(file: Deno.FsFile, to: string): Promise<void> {
    const made = this.#folders.ensure(dirname(to)).catch(
      () => {/* tried again where it is needed */},
    );
    await file.sync();
    await made;
  }

  /** Moves a synced file to its key. `keep`: an existing object stays, and the file keeps its name. */
  async #publish(key: string, from: string, keep: boolean): Promise<boolean> {
    const to = this.#path(key);
    const folder = dirname(to);
    let created = true;
    this.#lasting.delete(key);
    for (let attempt = 0;; attempt++) {
      await this.#folders.ensure(folder);
      try {
        if (keep) await Deno.link(from, to);
        else await Deno.rename(from, to);
        break;
      } catch (error) {
        if (keep && error instanceof Deno.errors.AlreadyExists) {
          created = false;
          break;
        }
        // A concurrent delete emptied and removed the folder.
        if (!isMissing(error) || attempt === 9) throw error;
        this.#folders.forget(folder);
      }
    }
    // Also where the object existed: its writer may not have synced the folder.
    await syncDir(folder);
    remember(this.#warm, key);
    remember(this.#lasting, key);
    return created;
  }

  async delete(key: string, options: CallOptions = {}): Promise<boolean> {
    options.signal?.throwIfAborted();
    const path = this.#path(key);
    try {
      await Deno.remove(path);
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
    await this.#prune(dirname(path));
    return true;
  }

  async deleteAll(keys: string[], options: CallOptions = {}): Promise<void> {
    const folders = Map.groupBy(keys.map((key) => this.#path(key)), dirname);
    const waiting = [...folders];
    const work = async () => {
      for (let next = waiting.pop(); next; next = waiting.pop()) {
        const [folder, paths] = next;
        options.signal?.throwIfAborted();
        for (const path of paths) {
          await Deno.remove(path).catch((error) => {
            if (!isMissing(error)) throw error;
          });
        }
        await this.#prune(folder, () => Promise.resolve());
      }
    };
    const ended = await Promise.allSettled(Array.from({ length: REMOVERS }, work));
    for (const result of ended) if (result.status === "rejected") throw result.reason;
  }

  /** Removes folders that a removal left empty, and makes the removal durable. */
  async #prune(folder: string, sync: (folder: string) => Promise<void> = syncDir): Promise<void> {
    for (let at = folder; at.length > this.#objects.length; at = dirname(at)) {
      this.#folders.forget(at);
      try {
        await Deno.remove(at);
      } catch (error) {
        if (isMissing(error)) continue;
        if (!["ENOTEMPTY", "EEXIST"].includes(systemCode(error) ?? "")) throw error;
        try {
          return await sync(at);
        } catch (error) {
          // A concurrent delete emptied and removed the folder.
          if (!isMissing(error)) throw error;
        }
      }
    }
    await sync(this.#objects);
  }

  list(
    prefix: string,
    options: CallOptions & { after?: string; delimiter?: "/"; brief?: boolean } = {},
  ): AsyncIterable<ListEntry> {
    if (prefix !== "") this.#path(prefix.slice(0, -1));
    return walk(this.#objects, prefix, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.uploads.close();
    this.#lock?.close();
    this.#lock = undefined;
  }
}

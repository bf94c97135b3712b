/**
 * Exported images in files: each is exported once, however many readers ask for it, and kept while there is room.
 * What an image consists of stays known when its archive is dropped; the next read exports it again.
 */
import { join } from "node:path";
import { asSvcError, SvcError } from "../../base/errors.ts";
import { Flights } from "../../base/flights.ts";
import { ensureDir, readJson, writeFileAtomic } from "../../base/fs.ts";
import type { Logger } from "../../base/log.ts";
import { Semaphore } from "../../base/mutex.ts";
import { parseDigest, verified } from "../../oci/digest.ts";
import type { BlobBody, ByteRange, ReadOptions } from "../../oci/image.ts";
import { readSlice } from "../../oci/layout_files.ts";
import type { Digest } from "../../oci/types.ts";
import { type ExportedImage, receiveExport } from "./exported.ts";

/** Bytes of archives that are kept. */
export const CACHE_BYTES = 10 * 1024 ** 3;
/** Exports at once. */
const AT_ONCE = 2;
/** Milliseconds after a read was asked for in which its archive stays: it is about to be opened. */
const GRACE_MS = 10_000;

interface Entry {
  image: ExportedImage;
  /** False where the archive was dropped. */
  kept: boolean;
  /** Of the last read, in milliseconds; over restarts by the archive's time. */
  used: number;
  /** Streams that are open. */
  readers: number;
}

/** The form of a record. A record of another form is removed. */
const VERSION = 1;

interface Stored {
  version: number;
  /** The machine's start in which the archive was written. */
  boot: string;
  image: ExportedImage;
}

export interface ExportCacheOptions {
  /** Made where it is missing; nobody else writes there. */
  folder: string;
  /** Bytes; default 10 GiB. One image that is larger is kept until another one comes. */
  limit?: number;
  graceMs?: number;
  export: (id: Digest, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>;
  log: Logger;
}

export class ExportCache implements AsyncDisposable {
  readonly #options: ExportCacheOptions;
  readonly #flights = new Flights<Entry, never>();
  readonly #exports = new Semaphore(AT_ONCE);
  readonly #closed = new AbortController();
  #loaded: Promise<Map<Digest, Entry>> | undefined;
  #boot = "";

  constructor(options: ExportCacheOptions) {
    this.#options = options;
  }

  /** The image with its archive; exported where it is not kept. Throws what the export throws. */
  async image(id: Digest, signal = this.#closed.signal): Promise<ExportedImage> {
    return (await this.#entry(id, signal)).image;
  }

  /** The ids of images that are known to have a manifest or blob; those whose archives are kept first. */
  async owners(digest: Digest): Promise<Digest[]> {
    const found = [...(await this.#entries()).values()]
      .filter(({ image }) => digest in image.blobs || digest in image.manifests);
    return found.sort((a, b) => Number(b.kept) - Number(a.kept)).map(({ image }) => image.id);
  }

  /** What is known of an image, without exporting it. */
  async known(id: Digest): Promise<ExportedImage | undefined> {
    return (await this.#entries()).get(id)?.image;
  }

  /** A blob of an image, exported again where its archive was dropped. Undefined: it has no such blob. */
  async read(
    id: Digest,
    digest: Digest,
    { range, signal = this.#closed.signal }: ReadOptions & { range?: ByteRange } = {},
  ): Promise<BlobBody | undefined> {
    const entry = await this.#entry(id, signal);
    const place = entry.image.blobs[digest];
    if (!place) return undefined;
    const { offset, size } = place;
    const start = Math.min(range?.start ?? 0, size);
    const end = Math.min((range?.end ?? size - 1) + 1, size);
    const path = this.#path(id, "tar");
    const bytes = async function* () {
      entry.readers++;
      try {
        yield* readSlice(path, offset + start, end - start, signal);
      } finally {
        entry.readers--;
        entry.used = Date.now();
      }
    };
    return {
      size: end - start,
      file: { path, offset: offset + start },
      stream() {
        const stream = ReadableStream.from(bytes());
        return range ? stream : verified(stream, digest, size);
      },
    };
  }

  /** Removes what is kept and known of images for which `gone` is true; not of those that are being read. */
  async forget(gone: (id: Digest) => boolean): Promise<void> {
    const entries = await this.#entries();
    for (const [id, entry] of [...entries]) {
      if (!gone(id) || this.#isBusy(entry)) continue;
      entries.delete(id);
      await this.#remove(this.#path(id, "json"));
      await this.#remove(this.#path(id, "tar"));
    }
  }

  /** Ends the exports that are under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed.abort(new SvcError("cancelled", "Cannot export images: the server ends"));
    await this.#flights.idle();
  }

  async #entry(id: Digest, signal: AbortSignal): Promise<Entry> {
    const entries = await this.#entries();
    const found = entries.get(id);
    if (found?.kept && await this.#touch(found)) return found;
    const either = AbortSignal.any([signal, this.#closed.signal]);
    const start = (work: AbortSignal) => this.#exports.run(() => this.#export(id, work), work);
    return await this.#flights.join(id, start, () => {}, either).result;
  }

  async #export(id: Digest, signal: AbortSignal): Promise<Entry> {
    const { export: open, log } = this.#options;
    const [entries, begun] = [await this.#entries(), Date.now()];
    const path = this.#path(id, "part");
    await ensureDir(this.#options.folder, 0o700);
    await this.#remove(path);
    try {
      const image = await receiveExport(await open(id, signal), { id, path, signal });
      const stored: Stored = { version: VERSION, boot: this.#boot, image };
      await Deno.rename(path, this.#path(id, "tar"));
      await writeFileAtomic(this.#path(id, "json"), JSON.stringify(stored), { mode: 0o600 });
      const entry: Entry = { image, kept: true, used: Date.now(), readers: 0 };
      entries.set(id, entry);
      log.debug("exported an image", { id, bytes: image.size, ms: Date.now() - begun });
      await this.#makeRoom(entries);
      return entry;
    } catch (error) {
      await this.#remove(path);
      throw asSvcError(error, `Cannot export image ${id}`);
    }
  }

  #isBusy({ readers, used }: Entry): boolean {
    // The clock may have been set back since.
    return readers > 0 || Math.abs(Date.now() - used) < (this.#options.graceMs ?? GRACE_MS);
  }

  /** Drops archives, the least recently used first, until the rest fits. Those that are being read stay. */
  async #makeRoom(entries: ReadonlyMap<Digest, Entry>): Promise<void> {
    const { limit = CACHE_BYTES } = this.#options;
    const kept = [...entries.values()].filter((entry) => entry.kept);
    let total = kept.reduce((sum, { image }) => sum + image.size, 0);
    for (const entry of kept.sort((a, b) => a.used - b.used)) {
      if (total <= limit) return;
      if (this.#isBusy(entry)) continue;
      entry.kept = false;
      total -= entry.image.size;
      await this.#remove(this.#path(entry.image.id, "tar"));
    }
  }

  /** Notes a use. False where somebody removed the archive. */
  async #touch(entry: Entry): Promise<boolean> {
    const path = this.#path(entry.image.id, "tar");
    const now = new Date();
    entry.used = now.getTime();
    try {
      const { mtime } = await Deno.stat(path);
      // The file's time tells the next server; once a minute is enough for that.
      if (now.getTime() - (mtime?.getTime() ?? 0) > 60_000) await Deno.utime(path, now, now);
      return true;
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      entry.kept = false;
      return false;
    }
  }

  #entries(): Promise<Map<Digest, Entry>> {
    this.#loaded ??= this.#load().catch((error) => {
      this.#loaded = undefined;
      throw error;
    });
    return this.#loaded;
  }

  /** What an earlier server left. After a machine's restart archives may lack bytes that were never written. */
  async #load(): Promise<Map<Digest, Entry>> {
    const { folder } = this.#options;
    await ensureDir(folder, 0o700);
    this.#boot = await Deno.readTextFile("/proc/sys/kernel/random/boot_id").catch(() => "");
    const entries = new Map<Digest, Entry>();
    const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name);
    for (const name of names.filter((name) => name.endsWith(".json"))) {
      const path = join(folder, name);
      const stored = await readJson<Stored>(path).catch(() => undefined);
      if (stored?.version !== VERSION) {
        await this.#remove(path);
        continue;
      }
      const { image, boot } = stored;
      const archive = await Deno.stat(this.#path(image.id, "tar")).catch(() => undefined);
      const kept = archive?.size === image.size && boot !== "" && boot === this.#boot;
      entries.set(image.id, { image, kept, used: archive?.mtime?.getTime() ?? 0, readers: 0 });
    }
    const wanted = new Set(
      [...entries.values()].filter(({ kept }) => kept).map(({ image }) =>
        fileName(image.id, "tar")
      ),
    );
    for (const name of names) {
      if (!name.endsWith(".json") && !wanted.has(name)) await this.#remove(join(folder, name));
    }
    return entries;
  }

  #path(id: Digest, kind: Kind): string {
    return join(this.#options.folder, fileName(id, kind));
  }

  async #remove(path: string): Promise<void> {
    try {
      await Deno.remove(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      this.#options.log.warn("cannot remove an exported image", { path, error });
    }
  }
}

type Kind = "tar" | "json" | "part";

const fileName = (id: Digest, kind: Kind) => `${parseDigest(id).hex}.${kind}`;

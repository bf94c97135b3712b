/**
 * Records of earlier COPYs of folders: what each copied, and its snapshot. The next COPY of the same kind
 * starts from that snapshot (lib/build/context/copied_folder.ts). Without the record everything is copied.
 */
import { Buffer } from "node:buffer";
import { ensureDir, readJson, removeTree } from "../../base/fs.ts";
import type { Snapshotter } from "../../snapshot/snapshotter.ts";
import { type Shelf, SMALL_FILE } from "../cache/shelf.ts";
import type { CopiedFolder } from "../context/copied_folder.ts";

export interface KeptFolder extends CopiedFolder {
  version: 1;
  /** Name of the committed snapshot. */
  snapshot: string;
}

export class CopiedFolders {
  #root: string;
  #snapshotter: Snapshotter;
  /** Records by key: bytes on disk, and the time of the last use in milliseconds since 1970. */
  #kept = new Map<string, { size: number; used: number }>();

  private constructor(root: string, snapshotter: Snapshotter) {
    this.#root = root;
    this.#snapshotter = snapshotter;
  }

  /** `root` is made if missing. */
  static async open(root: string, snapshotter: Snapshotter): Promise<CopiedFolders> {
    await ensureDir(root);
    const folders = new CopiedFolders(root, snapshotter);
    for await (const { name } of Deno.readDir(root)) {
      const { size, mtime, isFile } = await Deno.lstat(`${root}/${name}`);
      // Records are the only files here; anything else is a leftover.
      if (!isFile || !/^[0-9a-f]{64}$/.test(name)) await removeTree(`${root}/${name}`);
      else folders.#kept.set(name, { size, used: mtime?.getTime() ?? 0 });
    }
    return folders;
  }

  /** The record under the key, if its snapshot still exists. */
  async find(key: string): Promise<KeptFolder | undefined> {
    const kept = this.#kept.get(key);
    if (!kept) return undefined;
    const folder = await readSound(`${this.#root}/${key}`);
    if (!folder || !await this.#snapshotter.stat(folder.snapshot)) {
      await this.forget(key);
      return undefined;
    }
    const now = new Date();
    kept.used = now.getTime();
    await Deno.utime(`${this.#root}/${key}`, now, now).catch(() => {/* pruned meanwhile */});
    await this.#snapshotter.touch(folder.snapshot);
    return folder;
  }

  /** Writes the record; it may be lost in a power cut. */
  async keep(key: string, folder: Omit<KeptFolder, "version">): Promise<void> {
    const text = JSON.stringify({ version: 1, ...folder });
    // A torn record is recognised when it is read.
    await Deno.writeTextFile(`${this.#root}/${key}`, text);
    this.#kept.set(key, { size: Buffer.byteLength(text), used: Date.now() });
  }

  async forget(key: string): Promise<void> {
    this.#kept.delete(key);
    await removeTree(`${this.#root}/${key}`);
  }

  get shelf(): Shelf {
    return {
      kind: "copiedFolders",
      items: () =>
        Promise.resolve(
          [...this.#kept].map(([id, { size, used }]) => ({ id, size: size + SMALL_FILE, used })),
        ),
      remove: async (id) => {
        await this.forget(id);
        return true;
      },
    };
  }
}

/** Undefined for a missing or damaged record. */
async function readSound(path: string): Promise<KeptFolder | undefined> {
  try {
    const folder = await readJson<KeptFolder>(path);
    const sound = folder?.version === 1 && typeof folder.snapshot === "string" &&
      Array.isArray(folder.entries) && folder.entries.every(Array.isArray) &&
      Array.isArray(folder.touched);
    return sound ? folder : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof Deno.errors.IsADirectory) return undefined;
    throw error;
  }
}

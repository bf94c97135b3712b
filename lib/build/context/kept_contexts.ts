/**
 * Contexts of callers, kept between builds below the build folder:
 *
 *     contexts-kept/<sha256 of the caller's identity>/<number>/    see kept_tree.ts
 *
 * A build holds its tree alone; a second build of the same folder at the same time has one of its own.
 */
import { createHash } from "node:crypto";
import { SvcError } from "../../base/errors.ts";
import { ensureDir, removeTree } from "../../base/fs.ts";
import type { CacheItem, Shelf } from "../cache/shelf.ts";
import type { OpenTree } from "../inputs.ts";
import { KeptTree } from "./kept_tree.ts";
import type { LazyOptions } from "./lazy_mount.ts";
import { readListing, type RemoteTree } from "./remote.ts";

/** Trees that are kept where no ceiling says otherwise: folders that are built from once are many. */
const MAX_TREES = 32;

interface Place {
  id: string;
  size: number;
  used: number;
  held: boolean;
  /** This server has looked at what an earlier one left. */
  seen?: boolean;
}

export interface OpenOptions {
  /** Ends with the build. */
  signal: AbortSignal;
  /** Contents came in. */
  onFetched?: () => void;
}

export class KeptContexts implements Shelf {
  readonly kind = "contexts";
  #root: string;
  #lazy: LazyOptions;
  #places = new Map<string, Place>();

  private constructor(root: string, lazy: LazyOptions) {
    this.#root = root;
    this.#lazy = lazy;
  }

  /** `root` is made where it is missing; what is in it is of earlier servers. */
  static async open(root: string, lazy: LazyOptions): Promise<KeptContexts> {
    await ensureDir(root, 0o700);
    const kept = new KeptContexts(root, lazy);
    for await (const { name, isDirectory } of Deno.readDir(root)) {
      if (!isDirectory) {
        await removeTree(`${root}/${name}`);
        continue;
      }
      for await (const { name: number } of Deno.readDir(`${root}/${name}`)) {
        const id = `${name}/${number}`;
        const state = await Deno.stat(`${root}/${id}/state`).catch(() => undefined);
        // Without its state it is of no use to anybody.
        if (!state) await removeTree(`${root}/${id}`);
        else {kept.#places.set(id, {
            id,
            size: await treeSize(`${root}/${id}`),
            used: state.mtime?.getTime() ?? 0,
            held: false,
          });}
      }
    }
    return kept;
  }

  items(): Promise<CacheItem[]> {
    return Promise.resolve([...this.#places.values()].map((place) => ({ ...place })));
  }

  async remove(id: string): Promise<boolean> {
    const place = this.#places.get(id);
    if (!place) return true;
    if (place.held) return false;
    // Nobody takes it for a build while it goes.
    place.held = true;
    await this.#drop(place);
    return true;
  }

  /** The tree of a remote context as it is now; disposing keeps it for the next build. */
  async use(remote: RemoteTree, { signal, onFetched = () => {} }: OpenOptions): Promise<OpenTree> {
    const place = this.#hold(remote.identity);
    const folder = `${this.#root}/${place.id}`;
    let kept: KeptTree | undefined;
    try {
      await ensureDir(folder.slice(0, folder.lastIndexOf("/")), 0o700);
      kept = await KeptTree.open(folder, place.seen);
      place.seen = true;
      const known = kept.listed;
      if (known === undefined || !await remote.unchanged?.(known, signal)) {
        const { listing, digest } = await readListing(remote.entries(signal), signal);
        await kept.update(listing, digest, signal);
      }
    } catch (error) {
      await this.#release(place, kept, refused(error));
      throw error;
    }
    let failure: unknown;
    const tree = kept.tree(remote, signal, onFetched);
    const lazy = remote.lazy && remote.open ? kept.lazy(remote, signal, this.#lazy) : undefined;
    const fill = tree.fill!;
    return {
      ...tree,
      ...lazy && { lazy },
      async fill(selections, options) {
        try {
          await fill(selections, options);
        } catch (error) {
          failure = error;
          throw error;
        }
      },
      [Symbol.asyncDispose]: async () => {
        await lazy?.[Symbol.asyncDispose]();
        await this.#release(place, kept, refused(failure));
      },
    };
  }

  #hold(identity: string): Place {
    const name = createHash("sha256").update(identity).digest("hex");
    for (let number = 0;; number++) {
      const id = `${name}/${number}`;
      const place = this.#places.get(id) ?? { id, size: 0, used: 0, held: false };
      if (place.held) continue;
      place.held = true;
      this.#places.set(id, place);
      return place;
    }
  }

  async #drop({ id }: Place): Promise<void> {
    await removeTree(`${this.#root}/${id}`);
    this.#places.delete(id);
    // Stays where it has others.
    await Deno.remove(`${this.#root}/${id.slice(0, id.indexOf("/"))}`).catch(() => {});
  }

  /** Beyond so many the least recently used go. */
  async #limit(): Promise<void> {
    const idle = [...this.#places.values()].filter(({ held }) => !held);
    const oldest = idle.sort((a, b) => a.used - b.used).slice(
      0,
      Math.max(0, idle.length - MAX_TREES),
    );
    for (const { id } of oldest) await this.remove(id);
  }

  /**
   * What was refused is not kept, nor what cannot be written down: the build is none the worse for it,
   * and a full disk has its space back.
   */
  async #release(place: Place, kept: KeptTree | undefined, drop: boolean): Promise<void> {
    try {
      if (kept && !drop && await kept.save().then(() => true, () => false)) {
        place.size = kept.size;
        place.used = Date.now();
      } else await this.#drop(place);
    } finally {
      place.held = false;
    }
    await this.#limit();
  }
}

function refused(error: unknown): boolean {
  return error instanceof SvcError && ["too_large", "context_invalid"].includes(error.code);
}

async function treeSize(folder: string): Promise<number> {
  let bytes = 4096;
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    bytes += isDirectory
      ? await treeSize(`${folder}/${name}`)
      : 4096 + (await Deno.lstat(`${folder}/${name}`)).size;
  }
  return bytes;
}

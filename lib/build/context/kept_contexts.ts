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
import { type Listing, readListing } from "./listing.ts";
import type { RemoteTree } from "./remote.ts";

/** Most trees kept where no ceiling is set: many folders are built from only once. */
const MAX_TREES = 32;

/** Most entries, over all trees, that stay in memory too. */
const MAX_ENTRIES = 200_000;

/** Most characters of a request for changes; beyond that the whole listing is requested. */
const MAX_QUESTION = 1 << 20;

interface Place {
  id: string;
  size: number;
  used: number;
  held: boolean;
  /** This server has compared the tree with the state that an earlier server left. */
  seen?: boolean;
  /** The tree in memory, so that the state need not be read again. */
  kept?: KeptTree;
}

export interface OpenOptions {
  /** Aborted with the build. */
  signal: AbortSignal;
  /** Called when contents were fetched. */
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

  /** Opens the folder `root`, made if missing, with the trees that earlier servers left. */
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
        // A tree without its state is of no use.
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
    return Promise.resolve(
      [...this.#places.values()].map(({ id, size, used, held }) => ({ id, size, used, held })),
    );
  }

  async remove(id: string): Promise<boolean> {
    const place = this.#places.get(id);
    if (!place) return true;
    if (place.held) return false;
    // A held tree is not given to a build while it is removed.
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
      kept = await place.kept?.isSaved() ? place.kept! : await KeptTree.open(folder, place.seen);
      place.seen = true;
      place.kept = undefined;
      const listing = await listingOf(remote, kept, signal);
      if (listing) await kept.update(listing, signal);
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
    // Fails while the caller still has other trees there.
    await Deno.remove(`${this.#root}/${id.slice(0, id.indexOf("/"))}`).catch(() => {});
  }

  /** Removes the least recently used trees beyond {@linkcode MAX_TREES}. */
  async #limit(): Promise<void> {
    const idle = [...this.#places.values()].filter(({ held }) => !held);
    const oldest = idle.sort((a, b) => a.used - b.used).slice(
      0,
      Math.max(0, idle.length - MAX_TREES),
    );
    for (const { id } of oldest) await this.remove(id);
    let entries = 0;
    for (const place of idle.sort((a, b) => b.used - a.used)) {
      entries += place.kept?.count ?? 0;
      if (entries > MAX_ENTRIES) place.kept = undefined;
    }
  }

  /**
   * Keeps the tree for later builds. A refused context is removed, and so is one whose state cannot be
   * written: the build does not fail for that, and a full disk gets its space back.
   */
  async #release(place: Place, kept: KeptTree | undefined, drop: boolean): Promise<void> {
    try {
      if (kept && !drop && await kept.save().then(() => true, () => false)) {
        place.size = kept.size;
        place.used = Date.now();
        place.kept = kept;
      } else await this.#drop(place);
    } finally {
      place.held = false;
    }
    await this.#limit();
  }
}

/** The listing as it is now; undefined where it equals the kept listing. */
async function listingOf(
  remote: RemoteTree,
  kept: KeptTree,
  signal: AbortSignal,
): Promise<Listing | undefined> {
  const { listed } = kept;
  if (listed && remote.changes && questionSize(listed) <= MAX_QUESTION) {
    const parts = listed.parts.map(({ is }) => is);
    return await readListing(remote.changes(parts, signal), signal, listed);
  }
  return await readListing(remote.entries(signal), signal);
}

/** Size of a request for changes, in characters; an estimate. */
const questionSize = ({ parts }: Listing): number =>
  parts.reduce((size, { is: [path] }) => size + path.length + 72, 0);

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

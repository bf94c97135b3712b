/** A client's fids: the files that it has walked to, by its numbers. */
import { type FileNode, type Listing, type OpenFile } from "../files/node.ts";
import { NO_FID } from "./messages.ts";
import { Turns } from "./turns.ts";
import { ERRNO, FileError } from "../files/stat.ts";

/** A fid that reads or writes an extended attribute. */
export type XattrFid =
  | { value: Uint8Array<ArrayBuffer> }
  | { name: string; flags: number; size: number; parts: Uint8Array<ArrayBuffer>[] };

/** A node that several fids share; it is closed with the last of them. */
export class SharedNode {
  #users = 1;

  constructor(readonly node: FileNode) {}

  share(): this {
    this.#users++;
    return this;
  }

  drop(): void {
    if (--this.#users === 0) this.node.close();
  }
}

export class Fid {
  readonly turns = new Turns();
  /** Undefined before the walk has found the node, and after the fid's end. */
  shared: SharedNode | undefined;
  file?: OpenFile;
  folder?: Listing;
  xattr?: XattrFid;

  constructor(shared?: SharedNode) {
    this.shared = shared;
  }

  /** Throws EBADF for a fid without a node. */
  get node(): FileNode {
    if (!this.shared) throw new FileError(ERRNO.EBADF, "the fid is not in use");
    return this.shared.node;
  }

  get isOpen(): boolean {
    return this.file !== undefined || this.folder !== undefined || this.xattr !== undefined;
  }

  /** Closes the fid; it has no node from then on. */
  async close(): Promise<void> {
    const { file, folder, shared } = this;
    this.file =
      this.folder =
      this.xattr =
      this.shared =
        undefined;
    try {
      await file?.close();
      await folder?.folder.close();
    } finally {
      shared?.drop();
    }
  }
}

export class Fids {
  #fids = new Map<number, Fid>();

  /** `most`: fids that a client may hold at once. */
  constructor(readonly most: number) {}

  /** Throws EBADF for an unknown number. */
  get(number: number): Fid {
    const fid = this.#fids.get(number);
    if (!fid) throw new FileError(ERRNO.EBADF, `fid ${number} is not in use`);
    return fid;
  }

  put(number: number, fid: Fid): Fid {
    if (this.#fids.has(number) || number === NO_FID) {
      throw new FileError(ERRNO.EBADF, `fid ${number} is in use`);
    }
    if (this.#fids.size >= this.most) throw new FileError(ERRNO.EMFILE, "too many fids");
    this.#fids.set(number, fid);
    return fid;
  }

  /** All of them, by number. */
  get all(): ReadonlyMap<number, Fid> {
    return this.#fids;
  }

  /** Removes the number, if it still belongs to this fid. */
  delete(number: number, fid: Fid): void {
    if (this.#fids.get(number) === fid) this.#fids.delete(number);
  }

  /** Closes each fid when no request uses it any more. */
  async clear(): Promise<void> {
    const all = [...this.#fids.values()];
    this.#fids.clear();
    await Promise.allSettled(all.map((fid) => fid.turns.alone(() => fid.close())));
  }
}

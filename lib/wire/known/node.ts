/**
 * Files of a caller as nodes that answer from what is known (tree.ts), and ask for the rest. A node that came from a
 * listing has no fid until it is needed; the walk for it goes out together with what needs it.
 */
import {
  type Changes,
  checkName,
  type FileNode,
  type FolderEntry,
  kindOf,
  type NodeWriter,
  OPEN,
  type OpenFile,
  type OpenFolder,
  type Space,
} from "../files/node.ts";
import { ERRNO, FileError, type NodeKind, type NodeStat } from "../files/stat.ts";
import { kindOfQid } from "../ninep/answers.ts";
import { QID, type Qid } from "../ninep/messages.ts";
import { beginFile, beginFolder, type Begun, type Wanted } from "../ninep/begin.ts";
import { beginEntry } from "./begin.ts";
import { RemoteNode, requireOwnXattr } from "../ninep/remote_node.ts";
import { type Place, Places } from "./places.ts";
import type { KnownTree } from "./tree.ts";

interface Real {
  node: RemoteNode;
  /** Throws where the walk led elsewhere. */
  found: Promise<void>;
}

const replaced = () => new FileError(ERRNO.ESTALE, "another file has its name");

export class KnownNode implements FileNode, NodeWriter {
  readonly writer: NodeWriter | undefined;
  #users = 1;
  #real: Real | undefined;
  /** Questions about a folder that is not known. */
  #questions = 0;
  /** Of a file that the mount has made without waiting: as it was made. */
  #guess: NodeStat | undefined;
  #guessed = false;

  private constructor(
    readonly tree: KnownTree,
    readonly places: Places<KnownNode>,
    readonly writable: boolean,
    readonly id: bigint,
    readonly kind: NodeKind,
    private place?: Place<KnownNode>,
    real?: RemoteNode,
  ) {
    this.writer = writable ? this : undefined;
    if (real) this.#real = { node: real, found: Promise.resolve() };
    if (place) {
      place.parent.share();
      places.add(place, this);
    }
  }

  static root(tree: KnownTree, real: RemoteNode): KnownNode {
    const { writable, id } = real;
    return new KnownNode(tree, new Places<KnownNode>(), writable, id, "directory", undefined, real);
  }

  #child(name: string, id: bigint, kind: NodeKind, real?: RemoteNode): KnownNode {
    const { tree, places, writable } = this;
    return new KnownNode(tree, places, writable, id, kind, { parent: this, name }, real);
  }

  /** One more user, who closes it too. */
  share(): this {
    this.#users++;
    return this;
  }

  close(): void {
    if (--this.#users > 0) return;
    this.#real?.node.close();
    if (!this.place) return;
    this.places.remove(this.place, this);
    this.place.parent.close();
  }

  #reach(): Real {
    if (this.#real) return this.#real;
    const { place, tree: { client, ahead }, id } = this;
    if (!place) throw new FileError(ERRNO.ESTALE, "it has no name");
    const from = place.parent.#reach();
    const { fid, found } = client.begin(from.node.fid, [place.name]);
    const node = new RemoteNode(client, fid, this.#qid(), this.writable, ahead);
    const real: Real = {
      node,
      found: Promise.all([found, from.found]).then(([qid]) => {
        if (qid?.path === id) return;
        node.close();
        throw replaced();
      }).catch((error) => {
        if (this.#real === real) this.#real = undefined;
        place.parent.tree.doubt(place.parent.id);
        throw (error as FileError).errno === ERRNO.ENOENT ? replaced() : error;
      }),
    };
    real.found.catch(() => {/* who needs it is told */});
    return this.#real = real;
  }

  #qid(): Qid {
    const { kind, id: path } = this;
    const type = kind === "directory" ? QID.DIR : kind === "symlink" ? QID.SYMLINK : QID.FILE;
    return { type, version: 0, path };
  }

  /** `found`, for work that has to know: throws where the node turns out to be another. */
  async #on<R>(work: (node: RemoteNode, found: Promise<void>) => R | Promise<R>): Promise<R> {
    const { node, found } = this.#reach();
    const result = Promise.resolve(work(node, found));
    result.catch(() => {/* told below */});
    await found;
    return await result;
  }

  known(): NodeStat | undefined {
    if (this.kind === "directory") return this.tree.folderStat(this.id);
    const { place } = this;
    return place && this.tree.stat(place.parent.id, place.name, this.id);
  }

  /** Another node of the same file was found, by a name that is the file's now. */
  join(other: FileNode): void {
    if (other instanceof KnownNode && other !== this && other.place) this.#move(other.place);
  }

  knows(name: string, id: bigint | undefined): boolean {
    return this.tree.has(this.id) && this.tree.entry(this.id, name)?.id === id;
  }

  takeStat(): NodeStat | undefined {
    const guess = this.#guessed ? this.#guess : undefined;
    this.#guessed = false;
    return this.known() ?? guess ?? this.#real?.node.takeStat();
  }

  async stat(): Promise<NodeStat> {
    // What the mount has written is told with the answer.
    await this.tree.ahead.writes.settled(this.id);
    if (this.kind === "directory") await this.#learn();
    return this.known() ?? await this.#on((node) => node.stat());
  }

  /** With the second question about a folder it is worth to be known. */
  async #learn(): Promise<void> {
    const { tree, id } = this;
    if (tree.has(id) || this.#questions++ === 0) return;
    await this.#on((node) => tree.load(node.fid, id));
  }

  async walk(name: string): Promise<KnownNode> {
    const { tree, id } = this;
    await this.#learn();
    if (tree.has(id)) {
      checkName(name);
      const entry = tree.entry(id, name);
      if (!entry) throw new FileError(ERRNO.ENOENT, name);
      return this.#child(name, entry.id, entry.kind);
    }
    const node = await this.#on((node) => node.walk(name));
    return this.#child(name, node.id, node.kind, node);
  }

  async open(flags: number): Promise<OpenFile> {
    const { tree, place, id } = this;
    if (flags & OPEN.TRUNC) tree.touched(id);
    const seen = this.#asked();
    seen.catch(() => {/* told below */});
    const file = await this.#on((node, found) => node.open(flags, found));
    if (flags & OPEN.TRUNC) tree.touched(id);
    try {
      await seen;
      return file;
    } catch (error) {
      await file.close();
      tree.doubt(place!.parent.id);
      throw error;
    }
  }

  /** Whoever opens a file sees what the caller has at that moment: its attributes, and which file has the name. */
  async #asked(): Promise<void> {
    const { tree, place } = this;
    if (!place) return;
    const { parent, name } = place;
    const found = await parent.#on((node) => node.walk(name)).catch((error) => {
      throw (error as FileError).errno === ERRNO.ENOENT ? replaced() : error;
    });
    try {
      if (found.id !== this.id) throw replaced();
      const stat = found.takeStat();
      if (stat && this.known()) await tree.saw(parent.id, name, this.id, stat);
      // Always: what was told may have come to the kernel before the answer that it is newer than.
      await tree.heard?.file(this.id);
    } finally {
      found.close();
    }
  }

  async list(): Promise<OpenFolder> {
    const { tree, id } = this;
    if (this.kind !== "directory") throw new FileError(ERRNO.ENOTDIR, "it is not a folder");
    if (!tree.has(id)) await this.#on((node) => tree.load(node.fid, id));
    const entries = tree.entries(id);
    if (!entries) return await this.#on((node) => node.list());
    // As they are now: whoever lists sees each entry once, whatever changes meanwhile.
    const listed = Array.from(entries, ([name, { id, kind }], index): FolderEntry => ({
      ...{ name, id, kind, next: BigInt(index + 1) },
    }));
    return {
      read: (offset) => listed.slice(Number(offset)),
      sync: () => this.#synced(),
      close() {},
    };
  }

  async #synced(): Promise<void> {
    const folder = await this.#on((node) => node.list());
    try {
      await folder.sync?.();
      this.tree.ahead.tell(this.id);
    } finally {
      await folder.close();
    }
  }

  readlink(): Promise<string> {
    return this.#on((node) => node.readlink());
  }

  space(): Promise<Space> {
    return this.#on((node) => node.space());
  }

  async getXattr(name: string): Promise<Uint8Array<ArrayBuffer>> {
    requireOwnXattr(name);
    return await this.#on((node) => node.getXattr(name));
  }

  listXattrs(): Promise<string[]> {
    return this.#on((node) => node.listXattrs());
  }

  async create(name: string, flags: number, mode: number) {
    if (this.tree.mayBegin(this.id, name)) {
      const begin = (folder: RemoteNode, wanted: Wanted) => beginFile(folder, flags, wanted);
      const { node, begun } = this.#begin(name, mode, "file", begin);
      return { node, file: begun.file };
    }
    const made = ({ path }: Qid) => this.tree.made(this.id, name, path, "file");
    const { node, file } = await this.#changing(
      name,
      () => this.#on((node) => node.create(name, flags, mode, made)),
    );
    return { node: this.#child(name, node.id, node.kind, node), file };
  }

  /** What is made counts at once, and is answered with: the caller does everything in its order. */
  #begin<B extends Begun>(
    name: string,
    mode: number,
    kind: "file" | "directory",
    begin: (folder: RemoteNode, wanted: Wanted) => B,
  ): { node: KnownNode; begun: B } {
    const { tree, id } = this;
    const { node: folder, found } = this.#reach();
    const at = { folder, id, found };
    const { number, begun, made } = beginEntry(tree, at, { name, mode, kind }, begin);
    const node = this.#child(name, number, kind, begun.node);
    node.#real = { node: begun.node, found: made };
    node.#guess = tree.behind!.stat(kind, mode);
    node.#guessed = true;
    return { node, begun };
  }

  async mkdir(name: string, mode: number): Promise<KnownNode> {
    if (this.tree.mayBegin(this.id, name)) {
      return this.#begin(name, mode, "directory", beginFolder).node;
    }
    // What is made in it soon need not be asked for.
    const known = this.tree.has(this.id);
    const follow = (fid: number) => void (known && this.tree.list(fid).catch(() => {}));
    return await this.#make(name, (node, made) => node.mkdir(name, mode, made, follow));
  }

  symlink(name: string, target: string): Promise<KnownNode> {
    return this.#make(name, (node, made) => node.symlink(name, target, made));
  }

  mknod(name: string, mode: number): Promise<KnownNode> {
    return this.#make(name, (node, made) => node.mknod(name, mode, made), kindOf(mode));
  }

  #changing<R>(name: string, work: () => Promise<R>): Promise<R> {
    return this.tree.changing([[this.id, name]], work);
  }

  async #make(
    name: string,
    make: (node: RemoteNode, made: (qid: Qid) => void) => Promise<RemoteNode>,
    kind?: NodeKind,
  ): Promise<KnownNode> {
    const made = (qid: Qid) => this.tree.made(this.id, name, qid.path, kind ?? kindOfQid(qid.type));
    const node = await this.#changing(name, () => this.#on((node) => make(node, made)));
    return this.#child(name, node.id, node.kind, node);
  }

  async link(name: string, target: FileNode): Promise<void> {
    const other = this.#own(target);
    const done = () => this.tree.made(this.id, name, other.id, other.kind);
    const { node } = other.#reach();
    const link = () =>
      Promise.all([this.#on((folder) => folder.link(name, node, done)), other.#on(() => {})]);
    await this.#changing(name, link);
  }

  async remove(name: string, kind: "folder" | "other"): Promise<void> {
    const done = () => {
      this.tree.removed(this.id, name);
      for (const node of this.places.at({ parent: this, name })) node.#move(undefined);
    };
    await this.#changing(name, () => this.#on((node) => node.remove(name, kind, done)));
  }

  async rename(name: string, to: FileNode, newName: string): Promise<void> {
    const into = this.#own(to);
    const { node } = into.#reach();
    const done = () => {
      const [place, newPlace] = [{ parent: this, name }, { parent: into, name: newName }];
      const [moved, over] = [this.places.at(place), this.places.at(newPlace)];
      // Two names of one file: nothing is renamed.
      if (moved.some((node) => over.some(({ id }) => id === node.id))) return;
      this.tree.renamed([this.id, name], [into.id, newName], moved.at(0));
      for (const node of over) node.#move(undefined);
      for (const node of moved) node.#move(newPlace);
    };
    const rename = () =>
      Promise.all([
        this.#on((folder) => folder.rename(name, node, newName, done)),
        into.#on(() => {}),
      ]);
    await this.tree.changing([[this.id, name], [into.id, newName]], rename);
  }

  /** Undefined: it has no name any more, as far as is known. */
  #move(to: Place<KnownNode> | undefined): void {
    const old = this.place;
    if (to) to.parent.share();
    if (old) this.places.remove(old, this);
    this.place = to && { parent: to.parent, name: to.name };
    if (this.place) this.places.add(this.place, this);
    old?.parent.close();
  }

  async change(changes: Changes): Promise<void> {
    const touched = () => this.tree.touched(this.id);
    touched();
    if (this.#changeBehind(changes, touched)) return;
    this.#guess = undefined;
    await this.#on((node) => node.change(changes, touched));
  }

  /** Mode and times of a file that the mount has made, and whose size is known. Returns whether they are changed so. */
  #changeBehind(changes: Changes, touched: () => void): boolean {
    const { tree: { behind, ahead }, id } = this;
    const { uid, gid, size: cut, mode } = changes;
    const size = ahead.sizeOf(id);
    const waits = cut !== undefined || uid !== undefined || gid !== undefined;
    if (!behind?.free || !this.#guess || size === undefined || waits) return false;
    const { node, found } = this.#reach();
    const done = Promise.all([found, node.changeBehind(changes, touched)]).then(() => {});
    void behind.counted(done).catch((error) => ahead.failed(id, error));
    this.#guess = { ...behind.stat(this.kind, mode ?? this.#guess.mode), size };
    return this.#guessed = true;
  }

  setXattr(name: string, value: Uint8Array<ArrayBuffer>, flags: number): Promise<void> {
    this.tree.touched(this.id);
    return this.#on((node) => node.setXattr(name, value, flags));
  }

  removeXattr(name: string): Promise<void> {
    this.tree.touched(this.id);
    return this.#on((node) => node.removeXattr(name));
  }

  #own(node: FileNode): KnownNode {
    if (node instanceof KnownNode && node.tree === this.tree) return node;
    throw new FileError(ERRNO.EXDEV, "it is of another export");
  }
}

/**
 * A folder as `svc build` offers it to the server: read-only, confined, without what .dockerignore excludes.
 */
import { breathe } from "../base/beat.ts";
import { SvcError } from "../base/errors.ts";
import { sha256 } from "../base/hash.ts";
import type { ListedEntry } from "../api/build_session.ts";
import { ConfinedFolder, type FolderStat } from "../wire/files/folder.ts";

/** Milliseconds of listing before other work gets its turn. */
const TURN_MS = 20;

const KINDS = { file: "f", directory: "d", symlink: "l" } as const;

/** The rules of .dockerignore (lib/build/parse/ignore.ts). */
export interface Rules {
  /** True where no path is excluded. */
  readonly empty: boolean;
  excludes(path: string): boolean;
  /** True where no rule includes anything again below an excluded folder. */
  canSkipDir(path: string): boolean;
}

export interface ExportedFolder extends Disposable {
  folder: ConfinedFolder;
  /** Stays the same for the same folder of the same machine, from build to build. */
  identity: string;
  /**
   * Entries, some at a time. A folder comes before its entries; an excluded folder comes only if something
   * below it is included again.
   */
  list(signal: AbortSignal): AsyncIterable<readonly ListedEntry[]>;
}

export interface ExportOptions {
  root: string;
  ignore: Rules;
  /** Called once for each path that is left out although no rule excludes it. */
  onSkip: (path: string, why: string) => void;
}

async function identityOf(root: string): Promise<string> {
  const { ino, dev, birthtime } = Deno.statSync(root);
  const facts = [Deno.hostname(), root, dev, ino, birthtime?.getTime()];
  return await sha256(JSON.stringify(facts));
}

function special(info: Deno.FileInfo): string | undefined {
  if (info.isFile || info.isDirectory || info.isSymlink) return undefined;
  return info.isSocket ? "a socket" : info.isFifo ? "a named pipe" : "a device";
}

/** On Windows a link's target has backslashes as separators; elsewhere a backslash is part of a name. */
function linkTarget(target: string): string {
  return Deno.build.os === "windows" ? target.replaceAll("\\", "/") : target;
}

/** Walks the folder. Parents come before what is in them. */
class Walk {
  /** First path of each file with several names. */
  readonly #inodes = new Map<string, string>();

  constructor(
    private readonly folder: ConfinedFolder,
    private readonly options: Pick<ExportOptions, "ignore" | "onSkip">,
  ) {}

  #entry(path: string, stat: FolderStat): ListedEntry {
    const { kind, mode, size, mtime, mtimeNs, stamp } = stat;
    const bytes = kind === "file" ? size : 0;
    const link = kind === "symlink"
      ? linkTarget(this.folder.readlink(path.split("/")))
      : this.#firstName(path, stat);
    const entry = [path, KINDS[kind], mode & 0o7777, bytes, mtime, mtimeNs, stamp] as const;
    return link === undefined ? [...entry] : [...entry, link];
  }

  /** The name by which a file with several names was listed before. */
  #firstName(path: string, { kind, nlink, dev, ino }: FolderStat): string | undefined {
    if (kind !== "file" || nlink <= 1 || ino === 0) return undefined;
    const inode = `${dev}:${ino}`;
    const first = this.#inodes.get(inode);
    if (first === undefined) this.#inodes.set(inode, path);
    return first;
  }

  /** Checks each name before it is read. */
  #look(shown: string, name: string, info: Deno.FileInfo | undefined): void {
    const { ignore, onSkip } = this.options;
    if (ignore.excludes(shown)) return;
    if (!info && name.includes("\uFFFD")) {
      throw new SvcError(
        "context_invalid",
        `Cannot read ${shown} of the build context: its name is not UTF-8`,
        { help: "rename it, or leave it out with .dockerignore" },
      );
    }
    const why = info && special(info);
    if (why) onSkip(shown, why);
  }

  /** `pending`: excluded folders on the way to `path`, which are listed if something below them is. */
  *visit(path: string[] = [], pending: ListedEntry[] = []): Generator<ListedEntry[]> {
    const { ignore } = this.options;
    const prefix = path.map((part) => `${part}/`).join("");
    const entries = this.folder.list(
      path,
      (name, info) => this.#look(prefix + name, name, info),
    );
    let some: ListedEntry[] = [];
    for (const { name, stat } of entries) {
      const inside = prefix + name;
      const left = stat.kind === "directory" && !ignore.empty && ignore.excludes(inside);
      const entry = this.#entry(inside, stat);
      const below = left ? [...pending, entry] : pending;
      if (!left) some.push(...pending.splice(0), entry);
      if (stat.kind !== "directory") continue;
      if (some.length > 0) yield some;
      some = [];
      for (const found of this.visit([...path, name], below)) {
        // The entry that came out includes the folders of `below` before it.
        if (left) pending.length = 0;
        yield found;
      }
    }
    if (some.length > 0) yield some;
  }
}

/** Opens the folder; the caller disposes of it. */
export async function exportFolder(
  { root, ignore, onSkip }: ExportOptions,
): Promise<ExportedFolder> {
  const identity = await identityOf(Deno.realPathSync(root));
  const folder = new ConfinedFolder(root, {
    visible: (path, directory) =>
      ignore.empty || !ignore.excludes(path) || directory && !ignore.canSkipDir(path),
  });
  async function* list(signal: AbortSignal): AsyncGenerator<ListedEntry[]> {
    let began = performance.now();
    for (const some of new Walk(folder, { ignore, onSkip }).visit()) {
      yield some;
      if (performance.now() - began < TURN_MS) continue;
      signal.throwIfAborted();
      await breathe();
      began = performance.now();
    }
  }
  return {
    folder,
    identity,
    list,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

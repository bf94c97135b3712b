/** A folder as `svc build` offers it to the server: what .dockerignore leaves, read-only, confined. */
import { SvcError } from "../base/errors.ts";
import { sha256 } from "../base/hash.ts";
import type { ListedEntry } from "../api/build_session.ts";
import { ConfinedFolder, type NodeStat } from "../wire/ninep/folder.ts";

/** Entries listed before other work gets its turn. */
const TURN = 500;

const KINDS = { file: "f", directory: "d", symlink: "l" } as const;

/** What .dockerignore says (lib/build/parse/ignore.ts). */
export interface Rules {
  /** True where nothing is left out. */
  readonly empty: boolean;
  excludes(path: string): boolean;
  /** True where nothing below a folder that is left out is taken back. */
  canSkipDir(path: string): boolean;
}

export interface ExportedFolder extends Disposable {
  folder: ConfinedFolder;
  /** The same for the same folder of the same machine from build to build. */
  identity: string;
  /** Folders before what is in them; one that is left out itself only where something below is not. */
  list(signal: AbortSignal): AsyncIterable<ListedEntry>;
}

export interface ExportOptions {
  root: string;
  ignore: Rules;
  /** Said once for each thing that is left out though no rule says so. */
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

/** Links of Windows say where they lead with backslashes; elsewhere one is part of a name. */
function linkTarget(target: string): string {
  return Deno.build.os === "windows" ? target.replaceAll("\\", "/") : target;
}

/** Opens it; the caller disposes of it. */
export async function exportFolder(
  { root, ignore, onSkip }: ExportOptions,
): Promise<ExportedFolder> {
  const identity = await identityOf(Deno.realPathSync(root));
  const folder = new ConfinedFolder(root, {
    visible: (path, directory) =>
      ignore.empty || !ignore.excludes(path) || directory && !ignore.canSkipDir(path),
  });
  const entryOf = (path: string[], stat: NodeStat): ListedEntry => {
    const { kind, mode, size, mtime, stamp } = stat;
    const common = [
      path.join("/"),
      KINDS[kind],
      mode & 0o7777,
      kind === "file" ? size : 0,
    ] as const;
    return kind === "symlink"
      ? [...common, mtime, stamp, linkTarget(folder.readlink(path))]
      : [...common, mtime, stamp];
  };
  function* visit(path: string[], pending: ListedEntry[]): Generator<ListedEntry> {
    const entries = folder.list(path, (name, info) => {
      const shown = [...path, name].join("/");
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
    });
    for (const { name, stat } of entries) {
      const inside = [...path, name];
      const left = stat.kind === "directory" && !ignore.empty && ignore.excludes(inside.join("/"));
      const entry = entryOf(inside, stat);
      const below = left ? [...pending, entry] : pending;
      if (!left) {
        yield* pending.splice(0);
        yield entry;
      }
      if (stat.kind !== "directory") continue;
      for (const found of visit(inside, below)) {
        // What `below` held came out in front of it.
        if (left) pending.length = 0;
        yield found;
      }
    }
  }
  async function* list(signal: AbortSignal): AsyncGenerator<ListedEntry> {
    let seen = 0;
    for (const entry of visit([], [])) {
      yield entry;
      if (++seen % TURN) continue;
      signal.throwIfAborted();
      await new Promise<void>((resolve) => setTimeout(resolve, 0));
    }
  }
  return {
    folder,
    identity,
    list,
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

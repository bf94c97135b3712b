/** Durable file operations: what they acknowledge is on disk, and a torn write is never visible. */
import { systemCode } from "./errors.ts";
import { dirname, join } from "./path.ts";

/** True where `path` exists (following links). */
export async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return false;
    }
    throw error;
  }
}

/** Resolves to undefined where the file or folder that `work` is about is not there. */
export async function ifThere<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The names in a folder, sorted; none where it is not there. */
export async function namesIn(folder: string): Promise<string[]> {
  const names = await ifThere(Array.fromAsync(Deno.readDir(folder), ({ name }) => name));
  return names?.sort() ?? [];
}

/** Permission bits. Files on Windows have none; they count as executable, as docker's client sends them. */
export function permissionsOf({ mode }: Pick<Deno.FileInfo, "mode">): number {
  return Deno.build.os === "windows" || mode === null ? 0o755 : mode & 0o7777;
}

/** fsyncs a directory, so that a rename or creation in it survives a crash. Windows has no such call. */
export async function syncDir(path: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  using dir = await Deno.open(path);
  await dir.sync();
}

/** Creates `path` and its missing parents, each made durable in its parent. */
export async function ensureDir(path: string, mode = 0o755): Promise<void> {
  try {
    await Deno.mkdir(path, { mode });
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return;
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    await ensureDir(dirname(path), mode);
    await Deno.mkdir(path, { mode }).catch((again) => {
      if (!(again instanceof Deno.errors.AlreadyExists)) throw again;
    });
  }
  await syncDir(dirname(path));
}

/**
 * Takes all access to a directory, and so to its contents, away from other users. False where that is not
 * possible: the directory belongs to another user, or its file system has no modes.
 */
export async function closeToOthers(path: string): Promise<boolean> {
  const { mode } = await Deno.stat(path);
  if (mode === null || (mode & 0o077) === 0) return true;
  try {
    await Deno.chmod(path, 0o700);
  } catch (error) {
    if (["EPERM", "EROFS", "ENOTSUP", "ENOSYS"].includes(systemCode(error) ?? "")) return false;
    throw error;
  }
  return ((await Deno.stat(path)).mode! & 0o077) === 0;
}

let counter = 0;

/** A name beside `path` that no other writer uses. */
export function temporaryName(path: string): string {
  return `${path}.tmp-${Deno.pid}-${(counter++).toString(36)}-${crypto.randomUUID().slice(0, 8)}`;
}

/**
 * Replaces `path` whole: written beside, fsynced, renamed, folder fsynced. Readers see the old or the
 * new content, never a mixture; when it returns, the new content survives a power cut.
 */
export async function writeFileAtomic(
  path: string,
  data: Uint8Array | string,
  options: { mode?: number } = {},
): Promise<void> {
  const temporary = temporaryName(path);
  try {
    {
      using file = await Deno.open(temporary, {
        write: true,
        createNew: true,
        mode: options.mode ?? 0o644,
      });
      const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
      for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
      await file.sync();
    }
    await Deno.rename(temporary, path);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {/* the file was never made, or is gone already */});
    throw error;
  }
  await syncDir(dirname(path));
}

/**
 * Writes a small JSON file synchronously and in place; only for data that may be lost. Handing the write to
 * another thread would take longer, and file systems write a renamed or truncated file to disk at once. After
 * a crash of the process the file holds the old document or the new one; after a power cut perhaps neither.
 */
export function writeJsonInPlace(path: string, value: unknown): void {
  using file = Deno.openSync(path, { write: true, create: true });
  const text = new TextEncoder().encode(JSON.stringify(value));
  // Trailing blanks, which JSON allows, overwrite the rest of a longer old document.
  const bytes = new Uint8Array(Math.max(text.length, file.statSync().size)).fill(0x20);
  bytes.set(text);
  if (file.writeSync(bytes) !== bytes.length) throw new Error(`Cannot write ${path} as a whole`);
}

/** Reads and parses a JSON file; undefined where it is missing. */
export async function readJson<T>(path: string): Promise<T | undefined> {
  const text = await ifThere(Deno.readTextFile(path));
  return text === undefined ? undefined : JSON.parse(text) as T;
}

/** Removes a tree or file; a missing one is fine. */
export async function removeTree(path: string): Promise<void> {
  await ifThere(Deno.remove(path, { recursive: true }));
}

/**
 * {@linkcode removeTree} for a folder that only this process writes to, and that somebody else's archive or context
 * was unpacked into: its folders may be closed to their owner, too.
 */
export async function removeUnpacked(path: string): Promise<void> {
  try {
    await removeTree(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw error;
    await openFolders(path);
    await removeTree(path);
  }
}

async function openFolders(path: string): Promise<void> {
  await Deno.chmod(path, 0o700);
  for await (const { name, isDirectory } of Deno.readDir(path)) {
    if (isDirectory) await openFolders(join(path, name));
  }
}

/** True for a folder with something in it; a missing one has nothing. */
export async function holdsEntries(path: string): Promise<boolean> {
  try {
    for await (const _entry of Deno.readDir(path)) return true;
  } catch (error) {
    // A folder that only another user may read counts as empty.
    const { NotFound, PermissionDenied } = Deno.errors;
    if (!(error instanceof NotFound || error instanceof PermissionDenied)) throw error;
  }
  return false;
}

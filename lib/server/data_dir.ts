/** The server's data directory: private, of a known format, and used by one server at a time. */
import { dirname, join } from "node:path";
import { type ErrorCode, SvcError, systemCode } from "../base/errors.ts";
import { closeToOthers, ensureDir, ifThere, writeFileAtomic } from "../base/fs.ts";
import { acquireLock, type FileLock } from "../base/lock.ts";

/** Increased when an older svc would misread the data of a newer one. */
const FORMAT = 1;
const MARKER = "svc-data.json";

/** Entries that do not tell who made the directory. */
const NEUTRAL = new Set(["lock", "lost+found"]);

export interface DataDir extends Disposable {
  readonly path: string;
  /** False where access by other users could not be removed. */
  readonly closed: boolean;
}

/** Where the data directory is unless `--data-dir` says (DESIGN.md section 7). */
export function defaultDataDir(
  host: { os: string; uid: number | null; env: Readonly<Record<string, string | undefined>> },
): string {
  const { os, uid, env } = host;
  if (os === "windows") {
    return join(env.LOCALAPPDATA ?? join(env.USERPROFILE ?? "C:\\", "AppData", "Local"), "svc");
  }
  if (uid === 0) return "/var/lib/svc";
  const home = env.HOME ?? "/";
  if (os === "darwin") return join(home, "Library", "Application Support", "svc");
  return join(env.XDG_DATA_HOME || join(home, ".local", "share"), "svc");
}

const REASONS: Record<string, [ErrorCode, string, string]> = {
  EACCES: ["config_invalid", "permission denied", "choose a --data-dir that you may write"],
  EPERM: ["config_invalid", "permission denied", "choose a --data-dir that you may write"],
  EROFS: ["config_invalid", "the file system is read-only", "choose a writable --data-dir"],
  ENOENT: ["config_invalid", "it cannot be created there", "choose another --data-dir"],
  ENOTDIR: ["config_invalid", "it is not a directory", "choose a directory as --data-dir"],
  EEXIST: ["config_invalid", "it is not a directory", "choose a directory as --data-dir"],
  ENOSPC: ["storage_full", "no space is left", "free space, or choose another --data-dir"],
  EDQUOT: ["storage_full", "the quota is used up", "free space, or choose another --data-dir"],
};

function refused(path: string, error: unknown): unknown {
  const [code, reason, help] = REASONS[systemCode(error) ?? ""] ?? [];
  if (!code) return error;
  return new SvcError(code, `Cannot use ${path} as data directory: ${reason}`, {
    cause: error,
    help,
  });
}

/** False where there is no marker; throws `data_dir_foreign` on one that this build cannot use. */
async function checkMarker(path: string): Promise<boolean> {
  const text = await ifThere(Deno.readTextFile(join(path, MARKER)));
  if (text === undefined) return false;
  let format: unknown;
  try {
    format = JSON.parse(text).format;
  } catch {
    // An unreadable marker is reported like one without a number.
  }
  if (typeof format !== "number") {
    throw new SvcError(
      "data_dir_foreign",
      `Cannot use ${path} as data directory: its ${MARKER} is damaged`,
      { help: `restore ${MARKER} (for this version: {"format":${FORMAT}})` },
    );
  }
  if (format > FORMAT) {
    throw new SvcError(
      "data_dir_foreign",
      `Cannot use ${path} as data directory: a newer svc wrote it (format ${format}, this one knows ${FORMAT})`,
      { help: "run the newer svc, or choose another --data-dir" },
    );
  }
  return true;
}

async function checkEmpty(path: string): Promise<void> {
  const foreign: string[] = [];
  for await (const { name } of Deno.readDir(path)) {
    // A crash during the first write of the marker leaves a temporary file.
    if (NEUTRAL.has(name) || name.startsWith(`${MARKER}.tmp-`)) continue;
    if (name === "auth" && await holdsKeysAlone(join(path, name))) continue;
    foreign.push(name);
  }
  if (foreign.length === 0) return;
  const shown = foreign.sort().slice(0, 3).join(", ");
  throw new SvcError(
    "data_dir_foreign",
    `Cannot use ${path} as data directory: it holds other files (${shown}${
      foreign.length > 3 ? ", …" : ""
    }) and svc did not make it`,
  );
}

/** True for a folder with nothing but an operator's keys, put there before the first start. */
async function holdsKeysAlone(path: string): Promise<boolean> {
  if (!(await Deno.lstat(path)).isDirectory) return false;
  for await (const { name } of Deno.readDir(path)) if (name !== "authorized_keys") return false;
  return true;
}

/**
 * Opens `path` (absolute), creates it if missing, and locks it until disposed. The directory is closed to other
 * users, also where an older svc left it open; so files in it need no checks of their own. A foreign directory
 * is left unchanged. Throws `data_dir_foreign`, `data_dir_locked`, `storage_full` or `config_invalid`.
 */
export async function openDataDir(path: string): Promise<DataDir> {
  let lock: FileLock | undefined;
  let closed = true;
  try {
    await ensureDir(dirname(path));
    await ensureDir(path, 0o700);
    if (!(await Deno.stat(path)).isDirectory) {
      throw Object.assign(new Error("not a directory"), { code: "ENOTDIR" });
    }
    if (!await checkMarker(path)) await checkEmpty(path);
    lock = await lockDir(path);
    if (!await checkMarker(path)) {
      const marker = { format: FORMAT, created: new Date().toISOString() };
      await writeFileAtomic(join(path, MARKER), JSON.stringify(marker) + "\n");
    }
    closed = await closeToOthers(path);
  } catch (error) {
    lock?.[Symbol.dispose]();
    throw refused(path, error);
  }
  return { path, closed, [Symbol.dispose]: () => lock[Symbol.dispose]() };
}

async function lockDir(path: string): Promise<FileLock> {
  try {
    return await acquireLock(join(path, "lock"));
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "data_dir_locked") throw error;
    const pid = error.detail?.pid;
    throw new SvcError(
      "data_dir_locked",
      `Cannot use ${path} as data directory: ${
        pid === undefined ? "another svc server" : `the svc server with process id ${pid}`
      } is using it`,
      { cause: error, detail: error.detail },
    );
  }
}

/** The folder of a user's login session for what svc keeps while that lasts: sockets, locks, short-lived secrets. */
import { SvcError } from "./errors.ts";
import { closeToOthers, ifThere } from "./fs.ts";
import { join } from "./path.ts";

export interface RuntimeFolder {
  path: string;
  /** True where the folder is in memory and ends with the login session or the machine: secrets may lie in it. */
  passing: boolean;
}

/** Whether there is such a folder, and it is this user's. */
export async function isOwnFolder(folder: string): Promise<boolean> {
  try {
    const info = await Deno.lstat(folder);
    return info.isDirectory && info.uid === Deno.uid();
  } catch {
    return false; // missing, or not to be seen
  }
}

/** `$XDG_RUNTIME_DIR/svc`, else the same of the login session; /run/svc for root, else a folder in /tmp. */
export async function runtimeFolder(
  env: Readonly<Record<string, string | undefined>>,
): Promise<RuntimeFolder> {
  const uid = Deno.uid();
  for (const folder of [env.XDG_RUNTIME_DIR, `/run/user/${uid}`]) {
    if (folder && await isOwnFolder(folder)) return { path: join(folder, "svc"), passing: true };
  }
  if (uid === 0) return { path: "/run/svc", passing: true };
  return { path: `/tmp/svc-run-${uid}`, passing: false };
}

/**
 * Throws `denied` where the folder is a link, another user's, or one that others could write to: whatever is in it
 * may be theirs. A missing one is fine.
 */
export async function requireOwnFolder(path: string): Promise<void> {
  const info = await ifThere(Deno.lstat(path));
  if (info === undefined) return;
  const wrong = !info.isDirectory
    ? "it is not a folder"
    : info.uid !== Deno.uid()
    ? "it is not this user's folder"
    : (info.mode! & 0o022) !== 0
    ? "other users may write to it"
    : undefined;
  if (wrong === undefined) return;
  throw new SvcError("denied", `Cannot use ${path}: ${wrong}`, {
    help: "remove it, or set XDG_RUNTIME_DIR to a folder of your own",
  });
}

/** Makes the folder, with access for its user alone. Throws as {@linkcode requireOwnFolder}. */
export async function makeOwnFolder(path: string): Promise<void> {
  await Deno.mkdir(path, { mode: 0o700 }).catch((error) => {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  });
  await requireOwnFolder(path);
  await closeToOthers(path);
}

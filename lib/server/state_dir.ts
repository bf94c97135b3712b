/** Where a server keeps state that a reboot must empty: outside the data directory, in a folder of its user. */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { isOwnFolder } from "../base/runtime_folder.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The folder for all servers of this user: /run/svc for root, else a folder in the login session's, else in
 * /tmp. `uid` is the host's, also inside a user namespace.
 */
export async function runDir({ uid, env }: { uid: number; env: Environment }): Promise<string> {
  if (uid === 0) return "/run/svc";
  for (const folder of [env.XDG_RUNTIME_DIR, `/run/user/${uid}`]) {
    if (folder && await isOwnFolder(folder)) return join(folder, "svc");
  }
  return `/tmp/svc-run-${uid}`;
}

/**
 * Makes {@linkcode runDir}'s folder, with access for its owner alone. Throws `denied` where somebody else made
 * the folder first: everybody may write to /tmp.
 */
export async function makeRunDir(folder: string): Promise<void> {
  try {
    await Deno.mkdir(folder, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
  const info = await Deno.lstat(folder);
  if (!info.isDirectory || info.uid !== Deno.uid() || (info.mode! & 0o022) !== 0) {
    throw new SvcError("denied", `Cannot keep state in ${folder}: it is not this user's folder`, {
      help: "remove it, or set XDG_RUNTIME_DIR to a folder of your own",
    });
  }
}

/** The folder of the containers of one data directory's build engine. */
export function buildState(runDir: string, dataDir: string): string {
  return join(runDir, "build", createHash("sha256").update(dataDir).digest("hex").slice(0, 12));
}

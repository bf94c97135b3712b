/** Where a server keeps state that a reboot must empty: outside the data directory, in a folder of its user. */
import { createHash } from "node:crypto";
import { join } from "node:path";
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

/** The folder of the containers of one data directory's build engine. */
export function buildState(runDir: string, dataDir: string): string {
  return join(runDir, "build", createHash("sha256").update(dataDir).digest("hex").slice(0, 12));
}

/** Mount points of snapshots, and the errors of refused mounts. */
import { SvcError } from "../base/errors.ts";
import { hasCode } from "../sys/errno.ts";
import { unmountElsewhere } from "../sys/mount.ts";

/** Unmounts; a mount that is still in use is detached. */
export async function unmountFully(target: string): Promise<void> {
  try {
    await unmountElsewhere(target);
  } catch (error) {
    if (!hasCode(error, "EBUSY")) throw error;
    await unmountElsewhere(target, { detach: true });
  }
}

/** The real path of the folder, made if missing. */
export function mountPoint(target: string): string {
  Deno.mkdirSync(target, { recursive: true });
  return Deno.realPathSync(target);
}

/** Runs `work`, and explains the error where a mount is refused. */
export async function guarded(target: string, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!hasCode(error, "EPERM", "EACCES")) throw error;
    throw new SvcError(
      "unsupported",
      `Cannot mount at ${target}: this process may not mount file systems`,
      { cause: error, help: "run the server as root, or give it CAP_SYS_ADMIN" },
    );
  }
}

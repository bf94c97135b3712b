/** Mount points of snapshots, and what a refused mount means. */
import { SvcError } from "../base/errors.ts";
import { hasCode } from "../sys/errno.ts";
import { unmountElsewhere } from "../sys/mount.ts";

/** Unmounts; a mount that a last process still holds open is detached instead. */
export async function unmountFully(target: string): Promise<void> {
  try {
    await unmountElsewhere(target);
  } catch (error) {
    if (!hasCode(error, "EBUSY")) throw error;
    await unmountElsewhere(target, { detach: true });
  }
}

/** The folder, made if missing, by its real path. */
export function mountPoint(target: string): string {
  Deno.mkdirSync(target, { recursive: true });
  return Deno.realPathSync(target);
}

/** Says what a refused mount means. */
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

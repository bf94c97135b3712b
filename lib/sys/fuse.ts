/**
 * FUSE: opens the kernel's device and mounts a file system that is served through it (lib/wire/fuse serves).
 */
import fs from "node:fs";
import { mount, MS, unmount } from "./mount.ts";
import { callOnce } from "./system_call.ts";

/** True where this machine has FUSE. Whether mounting is allowed shows only when it is tried. */
export function hasFuse(): boolean {
  try {
    return Deno.build.os === "linux" && Deno.statSync("/dev/fuse").isCharDevice === true;
  } catch {
    return false;
  }
}

/** Receives the kernel's requests for a mount, and sends the answers. */
export interface FuseChannel {
  /** The next request, in memory of its own; undefined once the mount is gone. One call at a time. */
  next(buffer: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Sends an answer; does not wait. */
  answer(bytes: Uint8Array<ArrayBuffer>): void;
  /**
   * Tells the kernel something by itself. Waits in another thread: the kernel may wait for answers meanwhile. What it
   * has no use for, such as news of a file that it does not know, is fine.
   */
  tell(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
  /** Does not wait. `abort`: it ends at once, also where other namespaces have it mounted too. */
  unmount(options?: { abort?: boolean }): void;
  close(): void;
}

/**
 * Mounts at `target`, an existing folder. This process must never touch the mount synchronously: it would
 * wait for its own answer. Throws `SystemError` where mounting fails.
 */
export function openFuse(target: string, { writable = false } = {}): FuseChannel {
  const fd = fs.openSync("/dev/fuse", "r+");
  try {
    const options = `fd=${fd},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions`;
    const flags = MS.NOSUID | MS.NODEV | (writable ? 0 : MS.RDONLY);
    mount("svc", target, "fuse.svc", flags, options);
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
  return {
    next: (buffer) => nextRequest(fd, buffer),
    answer(bytes) {
      try {
        fs.writeSync(fd, bytes);
      } catch {
        // The requesting process is gone, or the mount is.
      }
    },
    // Not node:fs, whose answers by writeSync fail while a write of the same file is under way.
    tell: async (bytes) => void await callOnce("write", fd, bytes, bytes.length),
    unmount: ({ abort = false } = {}) => void unmount(target, { detach: true, abort }),
    close: () => fs.closeSync(fd),
  };
}

function nextRequest(
  fd: number,
  buffer: Uint8Array<ArrayBuffer>,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  return new Promise((resolve) => {
    const read = () =>
      fs.read(fd, buffer, 0, buffer.length, null, (error, size) => {
        if (!error) return resolve(buffer.slice(0, size));
        const { code } = error as { code?: string };
        // The request was cancelled before it was read.
        if (code === "ENOENT" || code === "EINTR" || code === "EAGAIN") return read();
        resolve(undefined);
      });
    read();
  });
}

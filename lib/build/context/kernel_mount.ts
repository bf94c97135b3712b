/** A tree mounted by the kernel's own 9P client, which speaks to this process over a socket. */
import fs from "node:fs";
import { ensureDir, removeTree } from "../../base/fs.ts";
import { detachElsewhere, mountElsewhere, MS } from "../../sys/mount.ts";
import { connDuplex } from "../../wire/duplex.ts";
import type { FileNode } from "../../wire/files/node.ts";
import { serveNinep } from "../../wire/ninep/server.ts";

/** How long the kernel may take to hang up after the mount is gone. */
const HANG_UP_MS = 10_000;

/** Default size of a 9P message in bytes: one read-ahead of the kernel and the header. */
const KERNEL_MSIZE = 128 * 1024 + 1024;

/**
 * Mounts the tree read-only at `target`, an existing folder; disposing unmounts it. Undefined where the
 * kernel has no 9P or does not let this process mount it. This process must never touch the mount
 * synchronously: it would wait for its own answer.
 */
export async function mountKernel(
  target: string,
  root: FileNode,
  msize: number = KERNEL_MSIZE,
): Promise<AsyncDisposable | undefined> {
  const folder = `${target}.9p`;
  await ensureDir(folder, 0o700);
  // By descriptor: a socket's path has at most 107 bytes, and the folder's may be longer.
  // Our own: a folder that was just made.
  const fd = fs.openSync(folder, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  const socket = `/proc/self/fd/${fd}/s`;
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(async () => {
    fs.closeSync(fd);
    await removeTree(folder);
  });
  const listener = Deno.listen({ transport: "unix", path: socket });
  const serving = (async () => {
    const conn = await listener.accept();
    const stream = connDuplex(conn);
    try {
      await serveNinep(stream, new Map([["", root]]), { maxMessage: msize, maxFids: Infinity });
    } finally {
      stream.reset();
    }
  })();
  // A broken connection shows as an error to whoever reads in the mount.
  const ended = serving.catch(() => {});
  const options = `trans=unix,version=9p2000.L,msize=${msize},cache=loose,access=any`;
  const flags = MS.RDONLY | MS.NOSUID | MS.NODEV;
  const mounted = await mountElsewhere(socket, target, "9p", flags, options);
  // No second client may connect.
  listener.close();
  if (!mounted) {
    await ended;
    return undefined;
  }
  return {
    async [Symbol.asyncDispose]() {
      await detachElsewhere(target);
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<void>((resolve) => timer = setTimeout(resolve, HANG_UP_MS));
      await Promise.race([ended, late]);
      clearTimeout(timer);
    },
  };
}

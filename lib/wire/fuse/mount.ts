/** Mounts a source of files. */
import { openFuse } from "../../sys/fuse.ts";
import type { FileNode } from "../files/node.ts";
import { FuseServer, type ServeFuseOptions } from "./server.ts";

export interface MountedFuse extends AsyncDisposable {
  /**
   * Unmounts it without waiting. Who has it mounted elsewhere too, as a container has, still reaches it until this
   * process ends.
   */
  detach(): void;
}

/**
 * Mounts what is below `root` at `target`, an existing folder; disposing unmounts it. The process that serves
 * a mount must never touch it synchronously: it would wait for itself. The caller closes the root. Throws
 * `SystemError` where it cannot be mounted.
 */
export function mountFuse(
  target: string,
  root: FileNode,
  options: ServeFuseOptions = {},
): MountedFuse {
  const channel = openFuse(target, options);
  const serving = new FuseServer(channel, root, options).serve();
  return {
    detach: () => channel.unmount(),
    async [Symbol.asyncDispose]() {
      channel.unmount();
      await serving;
    },
  };
}

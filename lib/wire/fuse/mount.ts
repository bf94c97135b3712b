/** Mounts a source of files. */
import { type FuseChannel, openFuse } from "../../sys/fuse.ts";
import type { FileNode } from "../files/node.ts";
import type { Replay } from "./replays.ts";
import { type Forgotten, FuseServer, type ServeFuseOptions } from "./server.ts";

export interface MountedFuse extends AsyncDisposable {
  /**
   * Unmounts it without waiting. Who has it mounted elsewhere too, as a container has, still reaches it until this
   * process ends.
   */
  detach(): void;
  /** Resolves when the kernel has forgotten it. */
  forget(what: Forgotten): Promise<void>;
  /** Runs calls of this process through the mount that do a change of others once more. One at a time. */
  replay(change: Replay, calls: () => Promise<void>): Promise<void>;
}

/**
 * Mounts what is below `root` at `target`, an existing folder; disposing ends it, for everybody. The process that serves
 * a mount must never touch it synchronously: it would wait for itself. The caller closes the root. Throws
 * `SystemError` where it cannot be mounted.
 */
export function mountFuse(
  target: string,
  root: FileNode,
  options: ServeFuseOptions = {},
): MountedFuse {
  const channel = openFuse(target, { writable: options.writable || options.wakes });
  return serveFuse(channel, root, options);
}

/** Serves a kernel that is connected already. */
export function serveFuse(
  channel: FuseChannel,
  root: FileNode,
  options: ServeFuseOptions = {},
): MountedFuse {
  const server = new FuseServer(channel, root, options);
  const serving = server.serve();
  return {
    detach: () => channel.unmount(),
    forget: (what) => server.forget(what),
    replay: (change, calls) => server.replays.run(change, calls),
    async [Symbol.asyncDispose]() {
      // Whoever began a mount namespace meanwhile has a copy of the mount, which would live on.
      channel.unmount({ abort: true });
      await serving;
    },
  };
}

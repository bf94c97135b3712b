/**
 * The process that serves a session's mounts: a 9P client of the caller on its standard input and output, and FUSE
 * mounts of the caller's exports. It is a process of its own, since whoever serves a mount must never wait for it.
 * When its input ends, the session or its server is gone: every call that waits fails with EIO, the mounts are
 * removed, and the process ends.
 */
import { join } from "node:path";
import { hasFuse } from "../../sys/fuse.ts";
import { AheadBlocks } from "../../wire/blocks/ahead_blocks.ts";
import { CachedNode } from "../../wire/cached/cached_node.ts";
import { FileCache } from "../../wire/cached/file_cache.ts";
import type { FileNode } from "../../wire/files/node.ts";
import { FileError } from "../../wire/files/stat.ts";
import { type MountedFuse, mountFuse } from "../../wire/fuse/mount.ts";
import { NinepClient } from "../../wire/ninep/client.ts";
import { KnownExports } from "../../wire/known/export.ts";
import { Waking } from "../../wire/known/waking.ts";
import { remoteRoot } from "../../wire/ninep/remote_node.ts";
import { ownStdio } from "../../wire/stdio_duplex.ts";
import type { MountLine, ServedMount } from "./plan.ts";
import { TREE, treeRoot } from "./tree_root.ts";

/** Milliseconds that the kernel may keep what it was told of a file: the caller may change it at any time. */
const KEEP_MS = 50;
/** The same for files that do not change. */
const KEEP_CACHED_MS = 1000;
/** Bytes of a message: a write of the kernel fits into one. */
const MAX_MESSAGE = 1 << 20;

function say(line: MountLine): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${JSON.stringify(line)}\n`));
}

/** For the log: of a call that was answered before it was done. Calls that the end of the connection ends are no news. */
function sayFailure(name: string, error: unknown): void {
  if (!(error instanceof FileError)) return;
  const text =
    `a folder or attributes could not be changed at the caller: ${name}: ${error.message}`;
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

async function mountAll(
  client: NinepClient,
  mounts: readonly ServedMount[],
  mounted: MountedFuse[],
): Promise<void> {
  const exports = new KnownExports(client);
  for (const { name, at, writable, cache, async } of mounts) {
    const keepMs = cache ? KEEP_CACHED_MS : KEEP_MS;
    const options = { writable, keepMs, flocks: client.own };
    if (!cache) {
      const ahead = async && new AheadBlocks(async);
      if (ahead) ahead.onFailure = (error) => sayFailure(name, error);
      const { root, tree, another } = await exports.root(name, { writable, ahead });
      const mount = mountFuse(at, treeRoot(root, another), { ...options, wakes: client.own });
      tree.heard = new Waking(tree, mount, join(at, TREE));
      mounted.push(mount);
      continue;
    }
    const tree = await remoteRoot(client, name, { writable, ahead: true });
    const by = { cache: new FileCache(cache), owner: cache.owner };
    const another = async (): Promise<FileNode> =>
      new CachedNode(await remoteRoot(client, name, { writable, ahead: tree.ahead }), by);
    mounted.push(mountFuse(at, treeRoot(tree, another), options));
  }
}

/**
 * Resolves to the exit code, with which the process has to end: only its end cuts off a workload that still lives.
 * `plan`: the mounts as JSON.
 */
export async function serveMounts(plan: string): Promise<number> {
  // A signal to the server's whole group is the server's to handle.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => {});
  }
  const mounted: MountedFuse[] = [];
  try {
    if (!hasFuse()) throw new Error("this machine has no /dev/fuse");
    const client = await NinepClient.connect(ownStdio(), { maxMessage: MAX_MESSAGE, own: true });
    await mountAll(client, JSON.parse(plan) as ServedMount[], mounted);
    say({ ready: true });
    await client.closed;
    return 0;
  } catch (error) {
    say({ failed: error instanceof Error ? error.message : String(error) });
    return 1;
  } finally {
    for (const mount of mounted) mount.detach();
  }
}

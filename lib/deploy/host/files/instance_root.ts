/** The root of an instance as it sees it: of a running one with all its mounts, of a stopped one with its volumes. */
import { join } from "node:path";
import { ensureDir } from "../../../base/fs.ts";
import { decodeDocument } from "../../../runtime/document.ts";
import type { RuntimeSpec } from "../../../runtime/spec.ts";
import { hasCode } from "../../../sys/errno.ts";
import { close, open } from "../../../sys/fd.ts";
import { O, S_IFDIR, S_IFMT, statFd } from "../../../sys/files.ts";
import { mount, MS, unmount } from "../../../sys/mount.ts";
import { mountsUnder } from "../../../sys/mountinfo.ts";
import { findRooted } from "../../../sys/rooted_file.ts";
import { openSource } from "../../bind_policy.ts";
import type { ContainerEngine, ProcessIdentity } from "../engine.ts";
import type { Instance } from "../instance.ts";
import { isAlive } from "../process.ts";
import type { ChangesOf } from "./changes.ts";
import type { OpenRoot } from "./jobs.ts";

export interface InstanceRootOptions {
  engine: Pick<ContainerEngine, "roots">;
  /** Where the roots of stopped instances are mounted meanwhile: below the run folder. */
  folder: string;
  /** Where bind sources are mounted while a container is made. */
  binds: string;
  /** SVC_ALLOW_BIND_SOURCES. */
  allowBindSources: readonly string[];
}

/** Undefined where the process has ended. */
async function runningRoot(process: ProcessIdentity): Promise<OpenRoot | undefined> {
  let fd: number;
  try {
    fd = open(`/proc/${process.pid}/root`, O.PATH | O.DIRECTORY);
  } catch (error) {
    if (hasCode(error, "ENOENT", "ESRCH")) return undefined;
    throw error;
  }
  // Asked after it was opened: another process may have had the pid before.
  const root = { fd, [Symbol.asyncDispose]: () => Promise.resolve(close(fd)) };
  if (await isAlive(process)) return root;
  close(fd);
  return undefined;
}

async function documentOf({ bundle }: Instance): Promise<Pick<RuntimeSpec, "mounts" | "root">> {
  // Our own: the bundle's document.
  return decodeDocument(await Deno.readTextFile(join(bundle, "config.json")));
}

function rootAt(path: string): OpenRoot {
  const fd = open(path, O.PATH | O.DIRECTORY);
  return { fd, [Symbol.asyncDispose]: () => Promise.resolve(close(fd)) };
}

/** Mounts an open file below a root, where the same path is there. */
function mountAt(root: string, source: number, target: string, readOnly: boolean): void {
  using place = findRooted(root, target);
  const kind = (fd: number) => (statFd(fd).mode & S_IFMT) === S_IFDIR;
  if (!place || kind(place.fd) !== kind(source)) return;
  mount(`/proc/self/fd/${source}`, `/proc/self/fd/${place.fd}`, "", MS.BIND | MS.REC);
  if (!readOnly) return;
  using over = findRooted(root, target)!;
  mount("none", `/proc/self/fd/${over.fd}`, "", MS.REMOUNT | MS.BIND | MS.RDONLY);
}

async function stoppedRoot(
  instance: Instance,
  { engine, folder, binds, allowBindSources }: InstanceRootOptions,
): Promise<OpenRoot> {
  const { made: { key, plan }, spec } = instance;
  const document = await documentOf(instance);
  const place = join(folder, crypto.randomUUID());
  await ensureDir(place, 0o700);
  const remove = async () => {
    while (unmount(place, { detach: true }));
    // Not recursive: the folder is empty, or something is still mounted there.
    await Deno.remove(place);
  };
  try {
    mount(await engine.roots.mount(key), place, "", MS.BIND);
    // Before the others: they must not appear in the tree itself.
    mount("none", place, "", MS.PRIVATE);
    for (const { type, source, destination, options } of document.mounts) {
      if (type !== "bind") continue;
      // May be served by way of this process, which would wait for itself.
      if (plan.mounts?.some(({ target }) => target === destination)) continue;
      const readOnly = options.includes("ro");
      const index = spec.mounts.findIndex(({ target }) => target === destination);
      if (index >= 0 && source.startsWith(`${binds}/`)) {
        const field = `mounts[${index}].source`;
        using opened = await openSource(spec.mounts[index].source, allowBindSources, field);
        mountAt(place, opened.fd, destination, readOnly);
        continue;
      }
      const fd = open(source, O.PATH);
      try {
        mountAt(place, fd, destination, readOnly);
      } finally {
        close(fd);
      }
    }
    if (spec.readOnly) mount("none", place, "", MS.REMOUNT | MS.BIND | MS.RDONLY);
    const fd = open(place, O.PATH | O.DIRECTORY);
    return {
      fd,
      [Symbol.asyncDispose]: async () => {
        close(fd);
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** The caller disposes of it. */
export async function openInstanceRoot(
  instance: Instance,
  options: InstanceRootOptions,
): Promise<OpenRoot> {
  const { run } = instance.life;
  return run && await runningRoot(run.process) || await stoppedRoot(instance, options);
}

/** The container's own tree, without what is mounted in it. */
export const ownRoot = async (
  { made: { key } }: Instance,
  { engine }: Pick<InstanceRootOptions, "engine">,
): Promise<OpenRoot> => rootAt(await engine.roots.mount(key));

/** The folder of the container's changes, and what they are changes of. */
export async function changesRoot(
  instance: Instance,
  { engine }: Pick<InstanceRootOptions, "engine">,
): Promise<[root: OpenRoot, of: ChangesOf]> {
  const { mounts } = await documentOf(instance);
  const { root, lower, overlay } = await engine.roots.source(instance.made.key);
  const mounted = mounts.map(({ destination }) => destination);
  return [rootAt(root), { lower, overlay, mounted }];
}

/** Removes what a server that ended in the middle has left mounted. */
export async function sweepRoots(folder: string): Promise<void> {
  for (const { target } of await mountsUnder(folder)) unmount(target, { detach: true });
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  for (const { name } of entries) await Deno.remove(join(folder, name)).catch(() => {/* in use */});
}

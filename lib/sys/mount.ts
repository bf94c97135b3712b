/** mount(2) and friends. Synchronous; throws {@linkcode SystemError}. */
import { SvcError } from "../base/errors.ts";
import { SystemError } from "./errno.ts";
import { close } from "./fd.ts";
import { check, cstring, errno, libc } from "./libc.ts";
import { type Argument, cbytes, done, tryCall } from "./system_call.ts";
import { inUserNamespace } from "./userns.ts";

/** Flags of mount(2): linux/mount.h. */
export const MS = {
  RDONLY: 1,
  NOSUID: 2,
  NODEV: 4,
  NOEXEC: 8,
  REMOUNT: 32,
  BIND: 4096,
  REC: 16384,
  PRIVATE: 1 << 18,
  SLAVE: 1 << 19,
  SHARED: 1 << 20,
} as const;

const MNT_FORCE = 1;
const MNT_DETACH = 2;
const UMOUNT_NOFOLLOW = 8;
const EPERM = 1;
const PAGE = 4096;

export function mount(
  source: string,
  target: string,
  type: string,
  flags: number,
  data = "",
): void {
  const result = libc().mount(
    cstring(source, 0),
    cstring(target, 1),
    cstring(type, 2),
    BigInt(flags),
    cstring(data, 3),
  );
  check(result, errno[0], `mount ${type || "bind"}`, target);
}

/** Strings that calls in other threads use: held here so that they are not collected. */
const held = new Set<readonly Uint8Array<ArrayBuffer>[]>();

async function withStrings(
  texts: readonly string[],
  call: (...strings: Uint8Array<ArrayBuffer>[]) => Promise<number>,
): Promise<boolean> {
  const strings = texts.map((text) => {
    const bytes = new TextEncoder().encode(`${text}\0`);
    const own = new Uint8Array(new ArrayBuffer(bytes.length));
    own.set(bytes);
    return own;
  });
  held.add(strings);
  try {
    return await call(...strings) === 0;
  } finally {
    held.delete(strings);
  }
}

/**
 * {@linkcode mount} in another thread, for file systems that this process itself serves: in this thread the
 * call would wait for its own answers. False where the kernel refuses; the reason is not known.
 */
export function mountElsewhere(
  source: string,
  target: string,
  type: string,
  flags: number,
  data: string,
): Promise<boolean> {
  return withStrings(
    [source, target, type, data],
    (...[source, target, type, data]) =>
      libc().mount_elsewhere(source, target, type, BigInt(flags), data),
  );
}

/** Detaches a mount in another thread, as {@linkcode mountElsewhere} mounts; false where there is none. */
export function detachElsewhere(target: string): Promise<boolean> {
  return withStrings(
    [target],
    (path) => libc().umount2_elsewhere(path, UMOUNT_NOFOLLOW | MNT_DETACH),
  );
}

/** Makes `source` visible at `target`; `recursive` includes the mounts below it. */
export function bindMount(
  source: string,
  target: string,
  options: { readOnly?: boolean; recursive?: boolean } = {},
): void {
  const flags = MS.BIND | (options.recursive ? MS.REC : 0);
  mount(source, target, "", flags);
  if (!options.readOnly) return;
  try {
    // A bind mount becomes read-only only by a remount. In a user namespace a remount would also clear
    // flags that the host has locked, such as nodev.
    if (inUserNamespace()) addReadOnly(target);
    else mount("none", target, "", MS.REMOUNT | MS.BIND | MS.RDONLY);
  } catch (error) {
    unmount(target, { detach: true });
    throw error;
  }
}

/** Adds the read-only flag to a mount and leaves the others as they are (Linux 5.12 and later). */
function addReadOnly(target: string): void {
  // struct mount_attr: attr_set, attr_clr, propagation, userns_fd; linux/mount.h.
  const attributes = new Uint8Array(new ArrayBuffer(32));
  new DataView(attributes.buffer).setBigUint64(0, BigInt(MOUNT_ATTR_RDONLY), true);
  const path = cbytes(target);
  const result = tryCall("mount_setattr", AT_FDCWD, path, 0, attributes, attributes.length);
  done(result, "mount_setattr", target);
}

/**
 * Unmounts the topmost mount at `target`; false where there was none. `detach`: hides the mount at once; the
 * kernel ends it after its last use. `abort`: a FUSE file system answers nothing any more, and what waits for it fails;
 * who is root of a user namespace alone may not do that, and only unmounts.
 */
export function unmount(
  target: string,
  options: { detach?: boolean; abort?: boolean } = {},
): boolean {
  const flags = UMOUNT_NOFOLLOW | (options.detach ? MNT_DETACH : 0) |
    (options.abort ? MNT_FORCE : 0);
  if (libc().umount2(cstring(target), flags) === 0) return true;
  const code = errno[0];
  // EINVAL: not a mount point; ENOENT: not there at all.
  if (code === 22 || code === 2) return false;
  if (options.abort && code === EPERM) return unmount(target, { ...options, abort: false });
  throw new SystemError(code, "umount2", target);
}

/**
 * {@linkcode unmount} in another thread: the kernel waits until every processor has released the mount, a
 * millisecond or more while they are busy.
 */
export async function unmountElsewhere(
  target: string,
  options: { detach?: boolean } = {},
): Promise<boolean> {
  const flags = UMOUNT_NOFOLLOW | (options.detach ? MNT_DETACH : 0);
  const done = await withStrings([target], (path) => libc().umount2_elsewhere(path, flags));
  // The reason of a refusal is in the other thread's errno: this thread tries again.
  return done || unmount(target, options);
}

export interface OverlayOptions {
  /** Folders from the topmost down; at least one. */
  lower: string[];
  upper?: string;
  work?: string;
  /** Further options, such as "volatile". */
  extra?: string[];
}

/** Most lower folders that the kernel takes (OVL_MAX_STACK); with more it answers EINVAL. */
export const MAX_LOWER = 500;

/** Mounts overlayfs at `target`; without `upper` read-only. Throws `unsupported` for too many folders. */
export function mountOverlay(target: string, options: OverlayOptions): void {
  const count = options.lower.length;
  if (count > MAX_LOWER) {
    throw new SvcError(
      "unsupported",
      `Cannot mount a file system of ${count} layers: overlayfs takes at most ${MAX_LOWER}`,
      { help: "build the image with fewer steps, or from what another stage made (COPY --from)" },
    );
  }
  const escape = (path: string) => path.replace(/[\\:,]/g, (c) => `\\${c}`);
  const data = [
    `lowerdir=${options.lower.map(escape).join(":")}`,
    ...options.upper
      ? [`upperdir=${escape(options.upper)}`, `workdir=${escape(options.work!)}`]
      : [],
    ...options.extra ?? [],
  ].join(",");
  const flags = options.upper ? 0 : MS.RDONLY;
  // mount(2) takes at most one page of options; the newer calls take each lower folder by itself.
  if (data.length < PAGE - 1) mount("overlay", target, "overlay", flags, data);
  else mountOverlayByParts(target, options);
}

// linux/mount.h.
const FSCONFIG_SET_FLAG = 0;
const FSCONFIG_SET_STRING = 1;
const FSCONFIG_CMD_CREATE = 6;
const CLOEXEC = 1;
const MOUNT_ATTR_RDONLY = 1;
const AT_FDCWD = -100;
const MOVE_MOUNT_F_EMPTY_PATH = 4;

/** Overlay through fsopen(2): no limit on the options' length. Linux 6.7 and later (`lowerdir+`). */
function mountOverlayByParts(target: string, options: OverlayOptions): void {
  const fs = done(tryCall("fsopen", cbytes("overlay"), CLOEXEC), "fsopen", target);
  try {
    const configure = (what: string, command: number, ...args: Argument[]) =>
      done(tryCall("fsconfig", fs, command, ...args), `fsconfig ${what}`, target);
    const set = (key: string, value: string) =>
      configure(key, FSCONFIG_SET_STRING, cbytes(key), cbytes(value));
    for (const lower of options.lower) set("lowerdir+", lower);
    if (options.upper) {
      set("upperdir", options.upper);
      set("workdir", options.work!);
    }
    for (const option of options.extra ?? []) {
      const [key, value] = option.split("=");
      if (value !== undefined) set(key, value);
      else configure(key, FSCONFIG_SET_FLAG, cbytes(key));
    }
    configure("create", FSCONFIG_CMD_CREATE);
    const attributes = options.upper ? 0 : MOUNT_ATTR_RDONLY;
    const mounted = done(tryCall("fsmount", fs, CLOEXEC, attributes), "fsmount", target);
    try {
      const [here, there] = [cbytes(""), cbytes(target)];
      const flags = MOVE_MOUNT_F_EMPTY_PATH;
      done(tryCall("move_mount", mounted, here, AT_FDCWD, there, flags), "move_mount", target);
    } finally {
      close(mounted);
    }
  } finally {
    close(fs);
  }
}

/** True where this process may mount; tried by a real bind mount in a temporary folder. */
export function canMount(): boolean {
  if (Deno.build.os !== "linux") return false;
  const folder = Deno.makeTempDirSync({ prefix: "svc-mount-" });
  try {
    bindMount(folder, folder);
    unmount(folder, { detach: true });
    return true;
  } catch {
    return false;
  } finally {
    Deno.removeSync(folder);
  }
}

/** Trees for the snapshotter's contract: made, changed and described in full. */
import { createHash } from "node:crypto";
import { compareRaw, encodeRaw } from "../../lib/base/raw_string.ts";
import { readNames, removeTreeSync } from "../../lib/sys/directory.ts";
import * as files from "../../lib/sys/files.ts";
import { readXattrs, setXattr } from "../../lib/sys/xattr.ts";
import { isLayerXattr } from "../../lib/snapshot/metadata.ts";
import { inUserNamespace } from "../../lib/sys/userns.ts";

/** A file capability: cap_net_raw+ep, version 2. */
const CAPABILITY = Uint8Array.from([1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
const LONG = "n".repeat(200);
const bytes = (text: string) => new TextEncoder().encode(text);

export function write(path: string, text: string, mode = 0o644, owner: [number, number] = [0, 0]) {
  Deno.writeTextFileSync(path, text);
  files.lchown(path, ...owner);
  files.chmod(path, mode);
}

/** A tree with one of everything that a layer can hold. */
export function populate(root: string): void {
  const at = (name: string) => `${root}/${name}`;
  for (
    const folder of ["bin", "etc", "etc/deep", "gone", "gone/sub", "hidden", "hidden/old", "dev"]
  ) {
    files.mkdir(at(folder));
  }
  files.mkdir(at("tmp"));
  files.chmod(at("tmp"), 0o1777);
  write(at("bin/su"), "setuid", 0o4755, [0, 42]);
  write(at("bin/ping"), "capable", 0o755);
  setXattr(at("bin/ping"), "security.capability", CAPABILITY);
  setXattr(at("bin/ping"), "user.note", bytes("binary \0 = \n value"));
  files.link(at("bin/su"), at("bin/su-again"));
  files.symlink("su", at("bin/link"));
  files.symlink("/etc/passwd", at("bin/absolute"));
  files.symlink("nowhere", at("bin/dangling"));
  files.lchown(at("bin/dangling"), 7, 8);
  write(at("etc/passwd"), "root:x:0:0::/root:/bin/sh\n");
  write(at("etc/same"), "unchanged");
  write(at("etc/shrinks"), "a long content");
  write(at("etc/deep/config"), "1");
  write(at("etc/file-to-dir"), "file");
  files.mkdir(at("etc/dir-to-file"));
  write(at("etc/dir-to-file/x"), "x");
  write(at("gone/a"), "a");
  write(at("gone/sub/b"), "b");
  write(at("hidden/old/x"), "x");
  write(at("hidden/stays"), "before");
  write(at("ünïcode-файл-文件"), "names");
  write(at(LONG), "long name");
  files.mkdir(at(`etc/${LONG}`));
  write(at(`etc/${LONG}/${LONG}`), "long path", 0o600, [3_000_000, 4_000_000]);
  const raw = String.fromCharCode(0xdcff) + "raw";
  files.mknod(at(raw), files.S_IFREG | 0o644);
  // Devices are the host's root's to make.
  if (!inUserNamespace()) {
    files.mknod(at("dev/null"), files.S_IFCHR | 0o666, 1, 3);
    files.chmod(at("dev/null"), 0o666);
    files.mknod(at("dev/loop300"), files.S_IFBLK | 0o660, 7, 300);
  }
  files.mknod(at("dev/fifo"), files.S_IFIFO | 0o644);
  Deno.writeFileSync(at("sparse"), new Uint8Array(0));
  Deno.truncateSync(at("sparse"), 300_000);
  write(at("big"), "0123456789".repeat(70_000));
  setTreeTimes(root, 1_600_000_000);
}

/** Changes of each kind on top of {@linkcode populate}'s tree. */
export function change(root: string): void {
  const at = (name: string) => `${root}/${name}`;
  removeTreeSync(at("gone"));
  files.unlink(at("bin/dangling"));
  removeTreeSync(at("hidden"));
  files.mkdir(at("hidden"), 0o700);
  write(at("hidden/stays"), "after");
  write(at("hidden/new"), "new");
  write(at("etc/shrinks"), "short");
  files.unlink(at("etc/file-to-dir"));
  files.mkdir(at("etc/file-to-dir"));
  write(at("etc/file-to-dir/y"), "y");
  removeTreeSync(at("etc/dir-to-file"));
  write(at("etc/dir-to-file"), "file");
  write(at("etc/deep/added"), "2");
  files.link(at("etc/deep/added"), at("etc/deep/added-too"));
  files.chmod(at("bin/su"), 0o4700);
  files.unlink(at("bin/link"));
  files.symlink("ping", at("bin/link"));
  files.unlink(at("dev/fifo"));
  files.mkdir(at("brand"));
  write(at("brand/new"), "new", 0o600, [1000, 1000]);
}

/** One fixed time for everything in a tree, so that nothing depends on the clock. */
export function setTreeTimes(path: string, seconds: number): void {
  if ((files.lstat(path).mode & files.S_IFMT) === files.S_IFDIR) {
    for (const name of readNames(path)) setTreeTimes(`${path}/${name}`, seconds);
  }
  files.setTimes(path, seconds);
}

/** Everything a tree is, one line a file; hard links as the group they form. Times in seconds. */
export function describe(root: string, options: { times?: boolean } = {}): string[] {
  const lines: string[] = [];
  const groups = new Map<string, string>();
  const visit = (path: string, full: string) => {
    const stat = files.lstat(full);
    const kind = stat.mode & files.S_IFMT;
    const parts = [path || ".", stat.mode.toString(8), `${stat.uid}:${stat.gid}`];
    if (options.times !== false) parts.push(String(stat.mtime));
    if (kind === files.S_IFREG) {
      const hash = createHash("sha256").update(read(full)).digest("hex").slice(0, 12);
      parts.push(`${stat.size} ${hash}`);
    }
    if (kind === files.S_IFLNK) parts.push(`-> ${files.readlink(full)}`);
    if (kind === files.S_IFCHR || kind === files.S_IFBLK) {
      parts.push(`${stat.rdevMajor},${stat.rdevMinor}`);
    }
    if (kind !== files.S_IFDIR && stat.nlink > 1) {
      const first = groups.get(String(stat.ino)) ?? path;
      groups.set(String(stat.ino), first);
      parts.push(`= ${first}`);
    }
    for (const [name, value] of readXattrs(full)) {
      if (isLayerXattr(name)) parts.push(`${name}=${value.toHex()}`);
    }
    lines.push(parts.join(" "));
    if (kind !== files.S_IFDIR) return;
    for (const name of readNames(full).sort(compareRaw)) {
      visit(path === "" ? name : `${path}/${name}`, `${full}/${name}`);
    }
  };
  visit("", root);
  return lines;
}

/** Content of files whose name is UTF-8; the one that is not is empty. */
function read(path: string): Uint8Array {
  return path.isWellFormed() ? Deno.readFileSync(path) : encodeRaw("");
}

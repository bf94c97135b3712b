/** Snapshots on overlayfs: each holds its changes, with its parents as lower folders. */
import { relative } from "node:path";
import { removeTree } from "../base/fs.ts";
import { close, open } from "../sys/fd.ts";
import { chmod, mkdir, O, tryLstat } from "../sys/files.ts";
import { bindMount, mountOverlay, unmount } from "../sys/mount.ts";
import { inUserNamespace } from "../sys/userns.ts";
import type { SnapshotDriver, TreePlace } from "./driver.ts";
import { likeFolder } from "./finish_tree.ts";

/**
 * Set explicitly because a kernel may turn them on by default. With them the upper folder refers to lower
 * folders in ways that a layer cannot express (renamed folders, metadata without data).
 */
const PLAIN = ["index=off", "redirect_dir=off", "metacopy=off"];

/**
 * Options in a user namespace. Overlay's marks are then `user.` attributes, and `redirect_dir` does not take
 * "off".
 */
const PLAIN_ROOTLESS = ["userxattr", "index=off", "redirect_dir=nofollow", "metacopy=off"];

const plain = () => inUserNamespace() ? PLAIN_ROOTLESS : PLAIN;

/** Longest options given to mount(2) as they are; it takes less than a page. */
const COMFORTABLE = 3500;

/** With `extra` options, the snapshot's own folder is mounted on top, writable. */
function mountTree(place: TreePlace, lower: string[], target: string, extra: string[]): void {
  const upper = extra.length > 0 ? [`${place.folder}/fs`, `${place.folder}/work`] : [];
  const total = [...lower, ...upper].reduce((sum, path) => sum + path.length + 1, 0);
  if (total < COMFORTABLE) {
    mountOverlay(target, {
      lower,
      upper: upper[0],
      work: upper[1],
      extra: [...plain(), ...extra],
    });
    return;
  }
  // A long chain: the folders by way of an open descriptor, which gives much shorter names.
  const fd = open(place.root, O.RDONLY | O.DIRECTORY);
  try {
    const short = (path: string) => `/proc/self/fd/${fd}/${relative(place.root, path)}`;
    mountOverlay(target, {
      lower: lower.map(short),
      upper: upper[0] && short(upper[0]),
      work: upper[1] && short(upper[1]),
      extra: [...plain(), ...extra],
    });
  } finally {
    close(fd);
  }
}

export function overlayDriver(options: { volatile: boolean }): SnapshotDriver {
  return {
    name: "overlay",
    changesOnly: true,
    async create(place) {
      mkdir(`${place.folder}/fs`, 0o755);
      mkdir(`${place.folder}/work`, 0o700);
      chmod(`${place.folder}/fs`, 0o755);
      // The root of the merged tree shows owner and mode of the upper folder.
      if (place.lower.length > 0) likeFolder(place.lower[0], `${place.folder}/fs`);
    },
    async mount(place, target, { volatile }) {
      // No parent: the folder of changes is the whole tree.
      if (place.lower.length === 0) return bindMount(`${place.folder}/fs`, target);
      // A volatile mount of this boot left this mark; snapshots of an earlier boot were dropped at the
      // start.
      const incompatible = `${place.folder}/work/work/incompat`;
      if (tryLstat(incompatible)) await removeTree(incompatible);
      mountTree(
        place,
        place.lower,
        target,
        volatile && options.volatile ? ["volatile"] : ["xino=auto"],
      );
    },
    async view(place, target) {
      const own = `${place.folder}/fs`;
      if (place.lower.length === 0) bindMount(own, target, { readOnly: true });
      else mountTree(place, [own, ...place.lower], target, []);
    },
    async freeze(place) {
      await removeTree(`${place.folder}/work`);
    },
    source: ({ folder, lower, amended }) => ({
      root: `${folder}/fs`,
      over: lower.slice(0, amended),
      lower: lower.slice(amended),
      overlay: true,
    }),
  };
}

/**
 * Tries a real overlay mount in `folder`: some hosts refuse overlay on their file system (overlay on overlay)
 * or to this process. Returns the reason of a refusal, or the abilities found.
 */
export async function probeOverlay(
  folder: string,
): Promise<{ reason: string } | { reason: undefined; volatile: boolean }> {
  const base = await Deno.makeTempDir({ dir: folder, prefix: "probe-" });
  const attempt = (name: string, extra: string[]) => {
    for (const part of ["", "/lower", "/upper", "/work", "/merged"]) {
      mkdir(`${base}/${name}${part}`);
    }
    Deno.writeTextFileSync(`${base}/${name}/lower/file`, "");
    const merged = `${base}/${name}/merged`;
    mountOverlay(merged, {
      lower: [`${base}/${name}/lower`],
      upper: `${base}/${name}/upper`,
      work: `${base}/${name}/work`,
      extra: [...plain(), ...extra],
    });
    try {
      Deno.removeSync(`${merged}/file`);
      if (!Deno.lstatSync(`${base}/${name}/upper/file`).isCharDevice) {
        throw new Error("a removed file leaves no white-out device");
      }
    } finally {
      unmount(merged, { detach: true });
    }
  };
  try {
    attempt("plain", []);
    try {
      attempt("volatile", ["volatile"]);
      return { reason: undefined, volatile: true };
    } catch {
      return { reason: undefined, volatile: false };
    }
  } catch (error) {
    return { reason: error instanceof Error ? error.message : String(error) };
  } finally {
    await removeTree(base);
  }
}

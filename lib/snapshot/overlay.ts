/** Snapshots on overlayfs: each holds its changes, its parents are lower folders. */
import { relative } from "node:path";
import { removeTree } from "../base/fs.ts";
import { close, open } from "../sys/fd.ts";
import { chmod, mkdir, O, tryLstat } from "../sys/files.ts";
import { bindMount, mountOverlay, unmount } from "../sys/mount.ts";
import { inUserNamespace } from "../sys/userns.ts";
import type { SnapshotDriver, TreePlace } from "./driver.ts";
import { likeFolder } from "./finish_tree.ts";

/**
 * Said aloud because a kernel may default to them: with them on, the upper folder refers to lower ones in
 * ways a layer cannot say (renamed folders, metadata without data).
 */
const PLAIN = ["index=off", "redirect_dir=off", "metacopy=off"];

/** In a user namespace overlay's marks are attributes that everybody may set; it takes no other "off". */
const PLAIN_ROOTLESS = ["userxattr", "index=off", "redirect_dir=nofollow", "metacopy=off"];

const plain = () => inUserNamespace() ? PLAIN_ROOTLESS : PLAIN;

/** Longest options we hand to mount(2) as they are; it takes less than a page. */
const COMFORTABLE = 3500;

export function overlayDriver(options: { volatile: boolean }): SnapshotDriver {
  const mountTree = (place: TreePlace, lower: string[], target: string, extra: string[]) => {
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
    // A deep chain: the same folders by way of an open one, with much shorter names.
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
  };
  return {
    name: "overlay",
    changesOnly: true,
    async create(place) {
      mkdir(`${place.folder}/fs`, 0o755);
      mkdir(`${place.folder}/work`, 0o700);
      chmod(`${place.folder}/fs`, 0o755);
      // The merged root shows the upper folder's owner and mode, not the lower one's.
      if (place.lower.length > 0) likeFolder(place.lower[0], `${place.folder}/fs`);
    },
    async mount(place, target, { volatile }) {
      // Nothing to lay it on: the changes are the tree.
      if (place.lower.length === 0) return bindMount(`${place.folder}/fs`, target);
      // Left by a volatile mount of this boot; on another boot the snapshot is dropped at start.
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
 * Tries overlay for real in `folder`, because some hosts refuse it on the file system they have (overlay
 * on overlay) or to this process. Returns what stands in the way, or which abilities there are.
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

/** Opens the snapshots of a data directory with the driver the host can use. */
import { SvcError } from "../base/errors.ts";
import { ensureDir } from "../base/fs.ts";
import type { Logger } from "../base/log.ts";
import { nativeDriver } from "./native.ts";
import { overlayDriver, probeOverlay } from "./overlay.ts";
import type { Snapshotter } from "./snapshotter.ts";
import { TreeSnapshotter } from "./tree_snapshotter.ts";

export interface SnapshotterOptions {
  /** Folder of the snapshots, made if missing; each driver has its own inside it. */
  root: string;
  /** "auto": overlay where a real mount succeeds, else native. */
  driver: "auto" | "overlay" | "native";
  log: Logger;
}

/**
 * One snapshotter per root and process. Throws `unsupported` where "overlay" is asked for and the host
 * refuses it.
 */
export async function createSnapshotter(options: SnapshotterOptions): Promise<Snapshotter> {
  const { root, driver, log } = options;
  if (Deno.build.os !== "linux") {
    throw new SvcError("unsupported", `Cannot keep snapshots: this machine runs ${Deno.build.os}`, {
      help: "run the server on Linux",
    });
  }
  await ensureDir(root, 0o711);
  if (driver !== "native") {
    const probe = await probeOverlay(root);
    if (probe.reason === undefined) {
      const overlay = overlayDriver({ volatile: probe.volatile });
      return await TreeSnapshotter.open(`${root}/overlay`, overlay, log);
    }
    if (driver === "overlay") {
      throw new SvcError(
        "unsupported",
        `Cannot use overlay snapshots in ${root}: ${probe.reason}`,
        {
          help: "choose the native snapshotter, or a data directory on another file system",
        },
      );
    }
    log.warn("overlay does not work here: snapshots are full copies", { reason: probe.reason });
  }
  return await TreeSnapshotter.open(`${root}/native`, nativeDriver(), log);
}

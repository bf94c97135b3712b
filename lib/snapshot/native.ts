/** Snapshots as whole copies, for hosts that refuse overlay; reflinks where the file system has them. */
import { bindMount } from "../sys/mount.ts";
import type { SnapshotDriver } from "./driver.ts";
import { runTreeJob } from "./tree_jobs.ts";

export function nativeDriver(): SnapshotDriver {
  return {
    name: "native",
    changesOnly: false,
    async create(place, signal) {
      const tree = `${place.folder}/fs`;
      await Deno.mkdir(tree, { mode: 0o755 });
      await Deno.chmod(tree, 0o755);
      const [parent] = place.lower;
      if (parent === undefined) return;
      await runTreeJob({ kind: "copy", from: parent, to: tree }, "Cannot copy snapshot", signal);
    },
    async mount(place, target) {
      bindMount(`${place.folder}/fs`, target);
    },
    async view(place, target) {
      bindMount(`${place.folder}/fs`, target, { readOnly: true });
    },
    async freeze() {},
    source: (place) => ({
      root: `${place.folder}/fs`,
      lower: place.lower.slice(place.amended, place.amended + 1),
      overlay: false,
    }),
  };
}

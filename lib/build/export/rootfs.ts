/** A result's file system as one archive, for `type=tar` and `type=local`. */
import { diffLayer } from "../../snapshot/tree_jobs.ts";
import { formatPlatform } from "../../oci/platform.ts";
import type { Engine, Outcome } from "../solve/engine_context.ts";
import type { SolvedPlan } from "./assemble.ts";

/** "linux_arm64": the folder's name in the archive of several platforms. */
const folderOf = ({ plan }: SolvedPlan) => formatPlatform(plan.platform).replaceAll("/", "_");

function topOf({ plan, outcomes }: SolvedPlan): Outcome | undefined {
  return typeof plan.root === "string" ? undefined : outcomes.get(plan.root);
}

/** Streams the archive; with several platforms each has a folder of its own. */
export async function* rootfsArchive(
  engine: Engine,
  solved: readonly SolvedPlan[],
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  await using held = new AsyncDisposableStack();
  const several = solved.length > 1;
  let root: string;
  if (several) {
    const folder = held.use(await engine.workspace.temporary());
    for (const one of solved) {
      const place = `${folder.path}/${folderOf(one)}`;
      const snapshot = topOf(one)?.snapshot;
      if (snapshot === undefined) await Deno.mkdir(place);
      else held.use(await engine.snapshotter.view(snapshot, place));
    }
    root = folder.path;
  } else root = held.use(await engine.workspace.view(topOf(solved[0])?.snapshot)).root;
  // All platforms of a build have the same epoch.
  const { epoch } = solved[0].plan;
  for await (const part of diffLayer({ root, lower: [], overlay: false, epoch }, { signal })) {
    if (part.kind === "block") yield part.bytes;
  }
}

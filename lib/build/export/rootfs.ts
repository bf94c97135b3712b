/** The file system of a result as one archive: what `type=tar` and `type=local` give. */
import { diffLayer } from "../../snapshot/tree_jobs.ts";
import { formatPlatform } from "../../oci/platform.ts";
import type { Engine, Outcome } from "../solve/engine_context.ts";
import type { SolvedPlan } from "./assemble.ts";

/** "linux_arm64": the folder of one of several platforms. */
const folderOf = ({ plan }: SolvedPlan) => formatPlatform(plan.platform).replaceAll("/", "_");

function topOf({ plan, outcomes }: SolvedPlan): Outcome | undefined {
  return typeof plan.root === "string" ? undefined : outcomes.get(plan.root);
}

/** Streams it; several platforms each have a folder of their own. */
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
  // The same for all platforms of a build.
  const { epoch } = solved[0].plan;
  yield* diffLayer({ root, lower: [], overlay: false, epoch }, { signal });
}

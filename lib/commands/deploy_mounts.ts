/** `svc deploy --session --mount`: files of this machine in the workload. */
import type { OfferedMounts } from "../client/mounts/open.ts";

/** Opens the sources that `--mount` names; undefined where there are none. The caller disposes of the result. */
export async function offerMounts(
  texts: readonly string[] = [],
): Promise<OfferedMounts | undefined> {
  if (texts.length === 0) return undefined;
  const [{ parseMountSource }, { openMounts }] = await Promise.all([
    import("../client/mounts/source.ts"),
    import("../client/mounts/open.ts"),
  ]);
  return openMounts(texts.map(parseMountSource));
}

/** The server's collection of garbage, as docker's clients ask for it: by the build cache. */
import { collectGarbage } from "../../client/storage.ts";
import type { DockerApi } from "../api.ts";
import { unsupported } from "../errors.ts";

export const cannotPrune = (what: string) =>
  unsupported(
    `svc cannot prune the build cache by ${what}: the server collects all its garbage at once`,
    "leave it out; SVC_BUILD_CACHE_KEEP_BYTES of the server bounds the cache",
  );

/** Returns the bytes that are free now. Throws `conflict` while another collection runs. */
export async function collectAll(api: DockerApi, signal: AbortSignal): Promise<number> {
  const { bytesReclaimed, buildCacheBytesReclaimed, unpackedBytesReclaimed = 0 } =
    await collectGarbage(api.client(signal), {}, () => {});
  api.events.tell("builder", "prune", "");
  return bytesReclaimed + buildCacheBytesReclaimed + unpackedBytesReclaimed;
}

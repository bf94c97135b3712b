/** `svc deploy --session --mount`: files of this machine in the workload. */
import { readCoherence } from "../base/coherence.ts";
import { SvcError } from "../base/errors.ts";
import type { OfferedMounts } from "../client/mounts/open.ts";
import type { MountSource } from "../client/mounts/source.ts";
import type { Invocation } from "./command.ts";

function coherenceOf({ SVC_BLOCK_COHERENCE: text = "" }: Invocation["env"]) {
  try {
    return readCoherence(text);
  } catch (error) {
    throw new SvcError(
      "config_invalid",
      `Cannot read SVC_BLOCK_COHERENCE: ${(error as Error).message}`,
    );
  }
}

/**
 * Opens the sources that `--mount` names; undefined where there are none. `warn` is told what happens to files
 * later. The caller disposes of the result.
 */
export async function offerMounts(
  texts: readonly string[] = [],
  { env, warn }: { env: Invocation["env"]; warn: (text: string) => void },
): Promise<OfferedMounts | undefined> {
  if (texts.length === 0) return undefined;
  const { parseMountSource } = await import("../client/mounts/source.ts");
  return await offerSources(texts.map(parseMountSource), { env, warn });
}

/** Opens the sources. The caller disposes of the result. */
export async function offerSources(
  sources: readonly MountSource[],
  { env, warn }: { env: Invocation["env"]; warn: (text: string) => void },
): Promise<OfferedMounts> {
  const { openMounts } = await import("../client/mounts/open.ts");
  const names = sources.some(({ cache }) => cache) &&
    await (await import("../client/mounts/cache_names.ts")).cacheNames(env);
  const named = await Promise.all(sources.map(async (source) => {
    if (!source.cache || !names) return source;
    const path = await Deno.realPath(source.source).catch(() => source.source);
    return { ...source, cacheName: await names(path) };
  }));
  return openMounts(named, { coherence: coherenceOf(env), warn });
}

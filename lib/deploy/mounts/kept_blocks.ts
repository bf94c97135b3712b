/** What a server keeps of callers' files: whole files of mounts with `,cache`, blocks of those with `,async`. */
import { createHash } from "node:crypto";
import type { CallerMount } from "../../api/caller_mounts.ts";
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { completed, readCoherence } from "../../base/coherence.ts";
import { SvcError } from "../../base/errors.ts";
import { isAbsolute, relative } from "../../base/path.ts";
import { cacheFolder, type FileCacheOptions, prepareCache } from "../../wire/cached/file_cache.ts";
import type { ServedMount } from "./plan.ts";

/** The values of SVC_FILE_CACHE and the variables beside it. */
export interface KeptSettings {
  fileCache: boolean;
  fileCacheDir?: string;
  fileCacheChunkSize: number;
  fileCacheMaxBytes?: number;
  blockCoherence?: string;
  blockReadahead?: number;
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return !isAbsolute(way) && way !== ".." && !way.startsWith("../");
}

export class KeptBlocks {
  readonly #settings: KeptSettings;
  readonly #cache: FileCacheOptions | undefined;

  private constructor(settings: KeptSettings, cache?: FileCacheOptions) {
    this.#settings = settings;
    this.#cache = cache;
  }

  /** Throws `config_invalid` where the cache's folder cannot be used. */
  static async open(settings: KeptSettings, dataDir: string): Promise<KeptBlocks> {
    const { fileCache, fileCacheDir: named, fileCacheChunkSize, fileCacheMaxBytes } = settings;
    if (!fileCache || named === undefined) return new KeptBlocks(settings);
    const refused = (why: string, cause?: unknown) =>
      new SvcError("config_invalid", `Cannot use SVC_FILE_CACHE_DIR ${named}: ${why}`, {
        cause,
        help: "name a folder on a volume of its own",
      });
    if (isWithin(dataDir, named)) throw refused("it is in the server's data directory");
    const folder = cacheFolder(named);
    try {
      await prepareCache(folder);
    } catch (error) {
      throw refused((error as Error).message, error);
    }
    return new KeptBlocks(settings, {
      folder,
      chunkSize: fileCacheChunkSize,
      ...(fileCacheMaxBytes !== undefined && { maxBytes: fileCacheMaxBytes }),
    });
  }

  /** Throws `spec_invalid` where the workload cannot have one of the mounts. */
  require({ name, replicas = 1 }: DeploySpec, mounts: readonly CallerMount[]): void {
    const one = mounts.find(({ async }) => async);
    if (!one || replicas <= 1) return;
    throw new SvcError(
      "spec_invalid",
      `Cannot mount the caller's files into ${name} at ${one.target}: with ,async there is one replica, and the ` +
        `spec has ${replicas}`,
      { help: "leave out ,async, or set replicas: 1" },
    );
  }

  /**
   * How a mount is served. What is kept of it is found again by the same user's session alone, with the caller's
   * secret name for the source: neither is in what this returns.
   */
  how({ cache, async }: CallerMount, { origin }: DeploySpec): Pick<ServedMount, "cache" | "async"> {
    if (cache !== undefined && this.#cache) {
      const owner = createHash("sha256").update(`${origin?.subject ?? ""}\0${cache}`).digest("hex");
      return { cache: { ...this.#cache, owner } };
    }
    if (!async) return {};
    const { blockCoherence = "", blockReadahead: readAhead = 0 } = this.#settings;
    const both = readCoherence(blockCoherence).filter((option) =>
      completed(async).includes(option)
    );
    const [subhash, defer, subfill] = (["subhash", "defer", "subfill"] as const).map((option) =>
      both.includes(option)
    );
    return { async: { subhash, defer, subfill, readAhead: subfill ? readAhead : 0 } };
  }

  /** What the caller is told of a mount that is not as it was asked for. */
  warning({ cache, target }: CallerMount): string[] {
    if (cache === undefined || this.#cache) return [];
    return [
      `mount ${target}: it is not cached, since this server has no file cache (SVC_FILE_CACHE); it is read-only`,
    ];
  }
}

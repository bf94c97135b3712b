/** The client's side of `--cache-from` and `--cache-to`: folders of this machine sent and received. */
import { join } from "../../base/path.ts";
import type { BuildResult } from "../../api/build.ts";
import {
  type CacheFromSpec,
  type CacheToSpec,
  formatCacheFrom,
  formatCacheTo,
  parseCacheFrom,
  parseCacheTo,
} from "../../api/build_cache_spec.ts";
import { SvcError } from "../../base/errors.ts";
import { exists, removeTree, temporaryName } from "../../base/fs.ts";
import type { Io } from "../../base/terminal.ts";
import type { Client } from "../../client/client.ts";
import type { TarFields } from "../../oci/tar_write.ts";
import { writing } from "./outputs.ts";

interface CacheValues {
  cacheFrom?: readonly string[];
  cacheTo?: readonly string[];
}

export interface Caches {
  from: CacheFromSpec[];
  to: CacheToSpec[];
}

/** Throws `argument_invalid` for a malformed value. */
export function cachesOf({ cacheFrom = [], cacheTo = [] }: CacheValues): Caches {
  const to = cacheTo.map(parseCacheTo);
  for (const { type, dest } of to) {
    if (type === "local" && !dest) {
      throw new SvcError("argument_invalid", "Cannot store the cache: type=local has no dest");
    }
  }
  return { from: cacheFrom.map(parseCacheFrom), to };
}

/** The files of an OCI layout with their content. */
async function* layoutEntries(
  folder: string,
): AsyncGenerator<TarFields & { body: ReadableStream<Uint8Array> }> {
  const add = async (path: string) => {
    const file = await Deno.open(join(folder, path));
    const { size } = await file.stat();
    return { path, type: "file" as const, size, body: file.readable };
  };
  for (const path of ["oci-layout", "index.json"]) yield await add(path);
  for await (const { name, isDirectory } of Deno.readDir(join(folder, "blobs"))) {
    if (!isDirectory) continue;
    for await (const blob of Deno.readDir(join(folder, "blobs", name))) {
      if (blob.isFile) yield await add(`blobs/${name}/${blob.name}`);
    }
  }
}

/**
 * Adds the caches' parameters to the build's query, after sending local folders to the server. A missing folder
 * is not an error: the first build on a machine has none.
 */
export async function addCaches(
  client: Client,
  { from, to }: Caches,
  query: URLSearchParams,
  io: Io,
): Promise<void> {
  for (const spec of from) {
    if (spec.src === undefined) {
      query.append("cachefrom", formatCacheFrom(spec));
      continue;
    }
    if (!await exists(join(spec.src, "index.json"))) {
      await io.stderr.write(`WARNING: no cache in ${spec.src}\n`);
      continue;
    }
    const { writeTar } = await import("../../oci/tar_write.ts");
    const { id } = await client.json("POST /build/inputs", {
      body: writeTar(layoutEntries(spec.src)),
      contentType: "application/x-tar",
    });
    query.append("cachefrom", formatCacheFrom({ type: spec.type, id, mounts: spec.mounts }));
  }
  for (const spec of to) query.append("cacheto", formatCacheTo(spec));
}

/** Writes the layout beside `folder` and renames it when it is complete. */
async function store(stream: ReadableStream<Uint8Array>, folder: string): Promise<void> {
  if (await exists(folder) && !await exists(join(folder, "oci-layout"))) {
    for await (const { name } of Deno.readDir(folder)) {
      await stream.cancel();
      throw new SvcError(
        "argument_invalid",
        `Cannot store the cache in ${folder}: it is a folder that holds something else (${name})`,
      );
    }
  }
  const partial = temporaryName(folder);
  try {
    const { extractArchive } = await import("./extract.ts");
    await extractArchive(stream, partial);
    await removeTree(folder);
    await Deno.rename(partial, folder);
  } catch (error) {
    await removeTree(partial);
    throw error;
  }
}

/** Downloads the caches that the server made for folders of this machine. */
export async function storeCaches(
  client: Client,
  { to }: Caches,
  { caches = [] }: BuildResult,
): Promise<void> {
  for (const { index, id } of caches) {
    const dest = to[index]?.dest;
    if (dest === undefined || id === undefined) continue;
    const { body } = await client.request("GET /build/outputs/{id}", {
      params: { id },
      accept: "application/x-tar",
    });
    await writing(dest, () => store(body!, dest));
  }
}

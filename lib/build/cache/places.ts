/** Opens the caches that a build imports; a missing cache only gives a warning. */
import type { CacheFromSpec } from "../../api/build_cache_spec.ts";
import { SvcError } from "../../base/errors.ts";
import { openArchive } from "../../oci/archive.ts";
import { openLayout } from "../../oci/layout.ts";
import type { ImageResolver } from "../../oci/resolver.ts";
import type { Spool } from "../export/spool.ts";
import type { CacheMounts, MountName } from "../solve/cache_mounts.ts";
import type { Reporter } from "../solve/reporter.ts";
import { ImportedCache } from "./import.ts";

export interface ImportOptions {
  images: ImageResolver;
  /** Holds the archives that clients sent. */
  spool: Spool;
  cacheMounts: CacheMounts;
  /** The cache mounts that the build names, by id. */
  mountNames: ReadonlyMap<string, MountName>;
  reporter: Reporter;
  signal: AbortSignal;
}

/** Adds a cache. Files that stay open are disposed of with `held`. */
async function add(
  cache: ImportedCache,
  spec: CacheFromSpec,
  { images, spool, signal }: ImportOptions,
  held: AsyncDisposableStack,
): Promise<number> {
  if (spec.type === "registry") {
    return await cache.add(images.place(spec.ref!), spec.mounts, signal);
  }
  const path = spec.id && spool.hold(spec.id);
  if (!path) {
    throw new SvcError("not_found", "Cannot import cache: the client did not send the folder");
  }
  const files = held.use(await openArchive(path, { signal }));
  const layout = await openLayout(files, { signal });
  let steps = 0;
  for (const digest of new Set(layout.images.map((image) => image.digest))) {
    const place = { source: layout, repository: "", reference: digest, name: "of the client" };
    steps += await cache.add(place, spec.mounts, signal);
  }
  return steps;
}

/** Undefined where nothing was imported. The caller disposes of the result when the build has ended. */
export async function openImports(
  specs: readonly CacheFromSpec[],
  options: ImportOptions,
): Promise<{ cache: ImportedCache } & AsyncDisposable | undefined> {
  if (specs.length === 0) return undefined;
  const { reporter, signal, cacheMounts, mountNames } = options;
  const cache = new ImportedCache();
  const held = new AsyncDisposableStack();
  for (const [index, spec] of specs.entries()) {
    const name = `import cache from ${spec.ref ?? "the client's folder"}`;
    const vertex = { id: `cache-from-${index}`, name };
    reporter.announce(vertex);
    reporter.step(vertex.id, { type: "start" });
    try {
      await add(cache, spec, options, held);
    } catch (error) {
      if (signal.aborted) {
        await held.disposeAsync();
        throw error;
      }
      reporter.warning(`${name}: ${(error as Error).message}`);
    }
    reporter.done(vertex.id, "ran", false);
  }
  for (const { mount, archive } of cache.mounts()) {
    const name = mountNames.get(mount.id);
    if (!name) continue;
    try {
      await cacheMounts.restore(
        { ...mount, owner: name.owner },
        () => archive.open(signal),
        signal,
      );
    } catch (error) {
      if (signal.aborted) {
        await held.disposeAsync();
        throw error;
      }
      reporter.warning(`import cache mount ${mount.id}: ${(error as Error).message}`);
    }
  }
  return { cache, [Symbol.asyncDispose]: () => held.disposeAsync() };
}

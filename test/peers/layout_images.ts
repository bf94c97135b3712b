/** An image resolver over an OCI layout on disk, for tests of backends without a registry. */
import { join } from "node:path";
import { SvcError } from "../../lib/base/errors.ts";
import type { ImageSource } from "../../lib/oci/image.ts";
import type { ImageResolver } from "../../lib/oci/resolver.ts";
import type { Descriptor, ImageConfig, Index, Manifest } from "../../lib/oci/types.ts";

/** Names are `NAME` of the layout's tags, as they were given to `writeBaseLayout`, or digests. */
export function layoutImages(directory: string): ImageResolver {
  const path = (digest: string) => join(directory, "blobs/sha256", digest.split(":")[1]);
  const json = async <T>(digest: string) => JSON.parse(await Deno.readTextFile(path(digest))) as T;
  const find = async (tag: string): Promise<Descriptor | undefined> => {
    const index: Index = JSON.parse(await Deno.readTextFile(join(directory, "index.json")));
    return index.manifests.find((entry) =>
      entry.digest === tag || entry.annotations?.["org.opencontainers.image.ref.name"] === tag
    );
  };
  const source: ImageSource = {
    async resolve(_repository, reference) {
      const descriptor = await find(reference);
      return descriptor &&
        { descriptor, bytes: await Deno.readFile(path(descriptor.digest)) };
    },
    async stat(_repository, digest) {
      return { size: (await Deno.stat(path(digest))).size };
    },
    async get(_repository, digest) {
      const bytes = await Deno.readFile(path(digest));
      return { size: bytes.length, stream: () => ReadableStream.from([bytes]) };
    },
    async *tags() {},
    async *referrers() {},
  };
  return {
    async resolve(name) {
      const descriptor = await find(name);
      if (!descriptor) {
        throw new SvcError("manifest_unknown", `Cannot find image ${name}: no such image`);
      }
      const manifest = await json<Manifest>(descriptor.digest);
      const config = await json<ImageConfig>(manifest.config.digest);
      return { name, source, repository: "layout", descriptor, manifest, config };
    },
    place() {
      throw new SvcError("unsupported", "Cannot look: the layout is not a registry");
    },
    target() {
      throw new SvcError("unsupported", "Cannot push: the layout is read-only");
    },
  };
}

import assert from "node:assert/strict";
import { sha256 } from "../../base/hash.ts";
import { MEDIA } from "../../oci/types.ts";
import type { RemoteRegistry } from "../../remote/registry.ts";
import { ImageStore } from "./store.ts";

/** A registry with an image of that config in each repository. */
async function registryOf(configs: Record<string, string>) {
  const encode = (value: string) => new TextEncoder().encode(value);
  const blobs = new Map<string, Uint8Array>();
  const put = async (text: string) => {
    const digest = `sha256:${await sha256(text)}`;
    blobs.set(digest, encode(text));
    return { digest, size: text.length };
  };
  const tops = new Map<string, { mediaType: string; digest: string; size: number }>();
  for (const [repository, text] of Object.entries(configs)) {
    const config = { mediaType: MEDIA.config, ...await put(text) };
    const manifest = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers: [] };
    tops.set(repository, { mediaType: MEDIA.manifest, ...await put(JSON.stringify(manifest)) });
  }
  const found = (repository: string) => {
    const descriptor = tops.get(repository)!;
    return { descriptor, bytes: blobs.get(descriptor.digest)! };
  };
  return {
    async *repositories() {
      yield* tops.keys();
    },
    async *tags() {
      yield "latest";
    },
    head: (repository: string) => Promise.resolve(tops.get(repository)),
    resolve: (repository: string) => Promise.resolve(found(repository)),
    get: (_: string, digest: string) =>
      Promise.resolve({ stream: () => ReadableStream.from([blobs.get(digest)!]) }),
  } as unknown as RemoteRegistry;
}

Deno.test("images: what somebody pushed that is none does not hide the others", async () => {
  const good = JSON.stringify({ rootfs: { type: "layers", diff_ids: [] } });
  const configs = { bad: "not json", none: "null", good, worse: '{"created":{}}' };
  const store = new ImageStore(await registryOf(configs), []);
  const { signal } = new AbortController();
  const images = await store.list(signal);
  assert.deepEqual(images.map(({ repository }) => repository), ["good"]);
  assert.equal(await store.find("bad", signal), undefined);
});

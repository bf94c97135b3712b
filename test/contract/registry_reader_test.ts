/** Each reader of the tree: a content store, two of them as one, a mirror. */
import { openMemStore } from "../../backends/store/mem.ts";
import { silent } from "../../lib/base/log.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import { openMirror } from "../../lib/registry/mirror/mirror.ts";
import type { UpstreamSource } from "../../lib/registry/mirror/upstreams.ts";
import { unionReader } from "../../lib/registry/union.ts";
import { createContentStore } from "../../lib/store/content.ts";
import type { ContentStore } from "../../lib/store/content_store.ts";
import { CONTENT, type ReaderContent, registryReaderContract } from "./registry_reader.ts";

async function filled({ blobs, manifests }: ReaderContent): Promise<ContentStore> {
  const store = createContentStore(openMemStore(), { log: silent });
  for (const text of blobs) {
    const bytes = new TextEncoder().encode(text);
    const body = ReadableStream.from([bytes]);
    await store.putBlob("app", { digest: digestOf(bytes), size: bytes.length }, body);
  }
  for (const { repository, tags, text } of manifests) {
    const bytes = new TextEncoder().encode(text);
    // The other half's blobs are not here.
    await store.publish(repository, undefined, bytes, { tags, sparse: true });
  }
  return store;
}

const { blobs, manifests } = CONTENT;
const every = <T>(list: readonly T[], rest: number) => list.filter((_, at) => at % 2 === rest);

registryReaderContract({
  name: "reader: content store",
  async open() {
    const reader = await filled(CONTENT);
    return { reader, [Symbol.asyncDispose]: async () => await reader[Symbol.asyncDispose]() };
  },
});

const HALVES: [string, ReaderContent, ReaderContent][] = [
  ["of halves", { blobs: every(blobs, 0), manifests: every(manifests, 0) }, {
    blobs: every(blobs, 1),
    manifests: every(manifests, 1),
  }],
  ["of the same twice", CONTENT, CONTENT],
  ["with nothing of its own", { blobs: [], manifests: [] }, CONTENT],
  ["with an empty view", CONTENT, { blobs: [], manifests: [] }],
];

for (const [how, first, second] of HALVES) {
  registryReaderContract({
    name: `reader: union ${how}`,
    async open() {
      const stores = [await filled(first), await filled(second)];
      return {
        reader: unionReader(stores[0], stores[1]),
        async [Symbol.asyncDispose]() {
          for (const store of stores) await store[Symbol.asyncDispose]();
        },
      };
    },
  });
}

for (const cache of [true, false]) {
  registryReaderContract({
    name: `reader: mirror ${cache ? "with" : "without"} a cache`,
    noCatalog: "a mirror lists what is here: registries do not tell strangers what they have",
    async open() {
      const upstream = await filled(CONTENT);
      const folder = await Deno.makeTempDir({ prefix: "svc-reader-" });
      const objects = openMemStore();
      const store = createContentStore(objects, { log: silent });
      const source: UpstreamSource = Object.assign(Object.create(upstream), {
        head: async (repository: string, tag: string) =>
          (await upstream.resolve(repository, tag))?.descriptor,
      });
      const mirror = await openMirror({
        store,
        objects,
        upstreams: [{ host: "up.example", source }],
        cache,
        spool: `${folder}/spool`,
        log: silent,
      });
      return {
        reader: mirror,
        async [Symbol.asyncDispose]() {
          await mirror[Symbol.asyncDispose]();
          await store[Symbol.asyncDispose]();
          await upstream[Symbol.asyncDispose]();
          await Deno.remove(folder, { recursive: true });
        },
      };
    },
  });
}

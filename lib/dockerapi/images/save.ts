/** `GET /images/get`: images as an archive that `docker load` and OCI tools read. */
import { blobPath, IMAGE_NAME, LAYOUT_VERSION, REF_NAME } from "../../oci/layout.ts";
import { type TarFields, writeTar } from "../../oci/tar_write.ts";
import { type Descriptor, type Index, MEDIA } from "../../oci/types.ts";
import { familiarName } from "../../oci/archive_docker.ts";
import type { DockerApi } from "../api.ts";
import { imagesOf } from "./access.ts";
import { shownName } from "./names.ts";
import { type ImageStore, noSuchImage, type StoredImage } from "./store.ts";
import type { Answer, Call } from "../request.ts";

type Entry = TarFields & { body?: Uint8Array | ReadableStream<Uint8Array> };

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const file = (path: string, body: Uint8Array): Entry => ({ path, type: "file", body });

async function* entries(
  store: ImageStore,
  images: readonly StoredImage[],
  signal: AbortSignal,
): AsyncGenerator<Entry> {
  const { registry } = store;
  const done = new Set<string>();
  const index: Index = { schemaVersion: 2, mediaType: MEDIA.index, manifests: [] };
  yield file("oci-layout", new TextEncoder().encode(LAYOUT_VERSION));
  for (const { repository, digest, manifest, names, id } of images) {
    const found = await registry.resolve(repository, digest, { signal });
    if (!found) throw noSuchImage(id);
    const annotations = names.map((name) => ({
      [IMAGE_NAME]: familiarName(shownName(name)),
      ...(name.tag !== undefined && { [REF_NAME]: name.tag }),
    }));
    for (const each of annotations.length > 0 ? annotations : [undefined]) {
      index.manifests.push({ ...found.descriptor, ...(each && { annotations: each }) });
    }
    if (!done.has(digest)) yield file(blobPath(digest), found.bytes);
    done.add(digest);
    for (const blob of [manifest.config, ...manifest.layers]) {
      if (done.has(blob.digest)) continue;
      done.add(blob.digest);
      yield await blobEntry(store, repository, blob, signal);
    }
  }
  yield file("index.json", encode(index));
  yield file(
    "manifest.json",
    encode(images.map(({ manifest, names }) => ({
      Config: blobPath(manifest.config.digest),
      RepoTags: names.length > 0 ? names.map(shownName) : null,
      Layers: manifest.layers.map(({ digest }) => blobPath(digest)),
    }))),
  );
}

async function blobEntry(
  { registry }: ImageStore,
  repository: string,
  { digest, size }: Descriptor,
  signal: AbortSignal,
): Promise<Entry> {
  const body = await registry.get(repository, digest, { signal });
  if (!body) throw noSuchImage(digest);
  return { path: blobPath(digest), type: "file", size, body: body.stream() };
}

/** Each name once; an id stands for the image without a name. */
export async function saveImages(call: Call, api: DockerApi): Promise<Answer> {
  const { store } = await imagesOf(api);
  const asked = call.params.name !== undefined ? [call.params.name] : call.query.getAll("names");
  const images = new Map<string, StoredImage>();
  for (const text of asked.flatMap((names) => names.split(","))) {
    const found = await store.find(text, call.signal);
    if (!found) throw noSuchImage(text);
    const byId = found.id.includes(text);
    const names = (byId ? [] : found.names).filter(({ tag }) => tag !== undefined);
    const known = images.get(found.id);
    images.set(found.id, { ...found, names: [...known?.names ?? [], ...names] });
  }
  return {
    headers: { "content-type": "application/x-tar" },
    stream: writeTar(entries(store, [...images.values()], call.signal)),
  };
}

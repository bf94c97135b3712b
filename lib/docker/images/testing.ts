/** An engine with images for tests: its archives are written as docker's daemons write them. */
import { SvcError } from "../../base/errors.ts";
import { digestOf } from "../../oci/digest.ts";
import { blobPath, LAYOUT_VERSION } from "../../oci/layout.ts";
import { writeTar } from "../../oci/tar_write.ts";
import { type Digest, MEDIA } from "../../oci/types.ts";
import type { ImageApi } from "./api.ts";

export const encode = (value: unknown): Uint8Array =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

/** The kinds of archives: docker 20.10's, 28's with layers in its own store, 28's with containerd's. */
export type ArchiveKind = "docker-20" | "docker-28" | "containerd";

export interface FakeImage {
  id: Digest;
  config: Uint8Array;
  diffIDs: Digest[];
  /** In the order of the archive. */
  files: [path: string, content: Uint8Array | { link: string }][];
}

/** The same layers give the same config, and so the same id. */
export function fakeImage(
  layers: Uint8Array[],
  kind: ArchiveKind = "docker-20",
  platform = "linux/amd64",
): FakeImage {
  const [os, architecture] = platform.split("/");
  const diffIDs = layers.map((layer) => digestOf(layer));
  const config = encode({ os, architecture, rootfs: { type: "layers", diff_ids: diffIDs } });
  const configDigest = digestOf(config);
  const layout = kind !== "docker-20";
  const nameOf = (at: number) =>
    layout ? blobPath(diffIDs[at]) : `${digestOf(encode(`${at}`)).slice(7)}/layer.tar`;
  const Config = layout ? blobPath(configDigest) : `${configDigest.slice(7)}.json`;
  const files: FakeImage["files"] = [];
  for (const [at, layer] of layers.entries()) {
    const same = layers.indexOf(layer);
    if (same === at) files.push([nameOf(at), layer]);
    else if (!layout) files.push([nameOf(at), { link: `../${nameOf(same)}` }]);
  }
  files.push([Config, config]);
  const Layers = layers.length === 0 ? null : layers.map((_, at) => nameOf(at));
  files.push(["manifest.json", encode([{ Config, RepoTags: null, Layers }])]);
  const manifest = encode({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: { mediaType: MEDIA.config, digest: configDigest, size: config.length },
    layers: layers.map((layer) => ({
      mediaType: MEDIA.layerTar,
      digest: digestOf(layer),
      size: layer.length,
      annotations: { of: "the engine's own manifest" },
    })),
  });
  const digest = digestOf(manifest);
  if (layout) {
    files.push([blobPath(digest), manifest], ["oci-layout", encode(LAYOUT_VERSION)], [
      "index.json",
      encode({
        schemaVersion: 2,
        manifests: [{ mediaType: MEDIA.manifest, digest, size: manifest.length }],
      }),
    ]);
  }
  return { id: kind === "containerd" ? digest : configDigest, config, diffIDs, files };
}

export function archiveOf({ files }: Pick<FakeImage, "files">): Promise<Uint8Array> {
  const entries = files.map(([path, content]) =>
    content instanceof Uint8Array
      ? { path, type: "file" as const, body: content }
      : { path, type: "symlink" as const, linkpath: content.link }
  );
  return new Response(writeTar(entries) as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
}

export class FakeEngine implements ImageApi {
  readonly images = new Map<Digest, FakeImage>();
  readonly names = new Map<string, Digest>();
  /** Exports by id. */
  readonly exports: Digest[] = [];
  readonly loaded: Uint8Array[] = [];
  /** Set: every call fails with it. */
  down?: SvcError;
  /** Set: an export ends after so many bytes. */
  cut?: number;
  /** What it says of its store. */
  keeps = false;
  /** Exports wait for it. */
  gate: Promise<void> = Promise.resolve();

  add(image: FakeImage, ...names: string[]): Digest {
    this.images.set(image.id, image);
    for (const name of names) this.names.set(name, image.id);
    return image.id;
  }

  remove(id: Digest): void {
    this.images.delete(id);
    for (const [name, at] of this.names) if (at === id) this.names.delete(name);
  }

  async list() {
    this.#check();
    return await Promise.resolve(
      [...this.images.keys()].map((id) => {
        const names = [...this.names].filter(([, at]) => at === id).map(([name]) => name);
        return { id, names: names.length > 0 ? names : ["<none>:<none>"] };
      }),
    );
  }

  async find(name: string) {
    this.#check();
    const id = this.names.get(name.replace(/^(docker\.io\/)?library\//, "")) ?? name;
    const found = this.images.get(id);
    return await Promise.resolve(found && { id, diffIDs: found.diffIDs });
  }

  async export(id: Digest, signal?: AbortSignal) {
    this.#check();
    this.exports.push(id);
    await this.gate;
    const bytes = await archiveOf(this.images.get(id)!);
    const end = this.cut ?? bytes.length;
    return ReadableStream.from((async function* () {
      for (let at = 0; at < end; at += 1000) {
        signal?.throwIfAborted();
        yield await Promise.resolve(bytes.slice(at, Math.min(end, at + 1000)));
      }
    })());
  }

  async load(archive: ReadableStream<Uint8Array>) {
    this.#check();
    this.loaded.push(
      await new Response(archive as ReadableStream<Uint8Array<ArrayBuffer>>).bytes(),
    );
  }

  async tag(id: Digest, name: string) {
    this.#check();
    await Promise.resolve(this.names.set(name, id));
  }

  platform() {
    return Promise.resolve({ os: "linux", architecture: "amd64" });
  }

  takesZstd() {
    return Promise.resolve(true);
  }

  keepsManifests() {
    return Promise.resolve(this.keeps);
  }

  #check(): void {
    if (this.down) throw this.down;
  }
}

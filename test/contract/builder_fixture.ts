/** What builder tests need around a builder: images in memory, contexts from a record of files. */
import { join } from "node:path";
import type { BuildEvent, BuildResult } from "../../lib/api/build.ts";
import { SvcError } from "../../lib/base/errors.ts";
import type { Builder, BuildRequest } from "../../lib/build/builder.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import type { BlobBody, ImageSink, ImageSource, ResolvedManifest } from "../../lib/oci/image.ts";
import { parseReference } from "../../lib/oci/reference.ts";
import type { ImageResolver, ResolvedImage } from "../../lib/oci/resolver.ts";
import { type Digest, type ImageConfig, type Manifest, MEDIA } from "../../lib/oci/types.ts";
import { type BaseImageOptions, writeBaseLayout } from "../peers/base_image.ts";
import { tar, type TarEntry } from "../../scripts/build/tar.ts";

/** A registry in memory: source, sink and resolver of every name. */
export class MemoryImages implements ImageSource, ImageSink, ImageResolver {
  readonly blobs = new Map<Digest, Uint8Array<ArrayBuffer>>();
  /** "repository:tag" or "repository@digest" → manifest. */
  readonly manifests = new Map<string, Uint8Array<ArrayBuffer>>();
  /** Blobs that came in by `putBlob`. */
  puts = 0;

  /** Reads a layout as `writeBaseLayout` makes it. */
  async addLayout(directory: string, name: string, digest: Digest): Promise<void> {
    const folder = join(directory, "blobs/sha256");
    for await (const entry of Deno.readDir(folder)) {
      const bytes = await Deno.readFile(join(folder, entry.name));
      if (`sha256:${entry.name}` === digest) this.manifests.set(`${name}:latest`, bytes);
      else this.blobs.set(`sha256:${entry.name}`, bytes);
    }
  }

  /** An image of these documents; its layers need not be layers. */
  async add(name: string, config: ImageConfig, layers: Uint8Array<ArrayBuffer>[]): Promise<void> {
    const put = (mediaType: string, bytes: Uint8Array<ArrayBuffer>) => {
      const digest = digestOf(bytes);
      this.blobs.set(digest, bytes);
      return { mediaType, digest, size: bytes.length };
    };
    const encode = (document: unknown) => new TextEncoder().encode(JSON.stringify(document));
    const manifest: Manifest = {
      schemaVersion: 2,
      mediaType: MEDIA.manifest,
      config: put(MEDIA.config, encode(config)),
      layers: layers.map((bytes) => put(MEDIA.layerGzip, bytes)),
    };
    await this.putManifest(name, MEDIA.manifest, encode(manifest), ["latest"]);
  }

  resolve(repository: string, reference: string): Promise<ResolvedManifest | undefined>;
  resolve(name: string, options?: object): Promise<ResolvedImage>;
  async resolve(
    name: string,
    reference?: string | object,
  ): Promise<ResolvedManifest | ResolvedImage | undefined> {
    if (typeof reference === "string") return this.#byReference(name, reference);
    const { repository, tag = "latest" } = parseReference(name);
    const bytes = this.manifests.get(`${repository}:${tag}`);
    if (!bytes) throw new SvcError("manifest_unknown", `Cannot find image ${name}: no such tag`);
    const manifest = this.json<Manifest>(bytes);
    const descriptor = {
      mediaType: manifest.mediaType!,
      digest: digestOf(bytes),
      size: bytes.length,
    };
    const config = this.json<ImageConfig>(this.blobs.get(manifest.config.digest)!);
    return await Promise.resolve({ name, source: this, repository, descriptor, manifest, config });
  }

  #byReference(repository: string, reference: string): ResolvedManifest | undefined {
    const separator = reference.startsWith("sha256:") ? "@" : ":";
    const bytes = this.manifests.get(`${repository}${separator}${reference}`);
    if (!bytes) return undefined;
    const { mediaType } = this.json<Manifest>(bytes);
    return {
      descriptor: { mediaType: mediaType!, digest: digestOf(bytes), size: bytes.length },
      bytes,
    };
  }

  place(name: string) {
    const { repository, tag, digest } = parseReference(name);
    return { source: this, repository, reference: digest ?? tag ?? "latest", name };
  }

  target(name: string): ReturnType<ImageResolver["target"]> {
    const { repository, tag = "latest" } = parseReference(name);
    return { sink: this, repository, tag, name: `${repository}:${tag}` };
  }

  stat(_repository: string, digest: Digest) {
    const bytes = this.blobs.get(digest);
    return Promise.resolve(bytes && { size: bytes.length });
  }

  get(_repository: string, digest: Digest): Promise<BlobBody | undefined> {
    const bytes = this.blobs.get(digest);
    return Promise.resolve(
      bytes && { size: bytes.length, stream: () => new Blob([bytes]).stream() },
    );
  }

  async *tags(): AsyncIterable<string> {}
  async *referrers(): AsyncIterable<never> {}

  hasBlob(_repository: string, digest: Digest) {
    return Promise.resolve(this.blobs.has(digest));
  }

  async putBlob(
    _repository: string,
    descriptor: { digest: Digest; size: number },
    body: ReadableStream<Uint8Array>,
  ): Promise<void> {
    const bytes = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
    if (digestOf(bytes) !== descriptor.digest || bytes.length !== descriptor.size) {
      throw new SvcError("digest_invalid", `Cannot store ${descriptor.digest}: other bytes`);
    }
    this.puts++;
    this.blobs.set(descriptor.digest, bytes);
  }

  putManifest(repository: string, mediaType: string, bytes: Uint8Array, tags: string[]) {
    const own = Uint8Array.from(bytes);
    const digest = digestOf(own);
    this.manifests.set(`${repository}@${digest}`, own);
    for (const tag of tags) this.manifests.set(`${repository}:${tag}`, own);
    return Promise.resolve({ mediaType, digest, size: own.length });
  }

  async image(name: string): Promise<ResolvedImage> {
    return await this.resolve(name, {});
  }

  private json<T>(bytes: Uint8Array): T {
    return JSON.parse(new TextDecoder().decode(bytes));
  }
}

/** Images in memory with a busybox image of the name "base". */
export async function imagesWithBase(
  folder: string,
  options: BaseImageOptions = {},
): Promise<MemoryImages> {
  const images = new MemoryImages();
  const layout = join(folder, "layout");
  await images.addLayout(layout, "base", await writeBaseLayout(layout, "base", options));
  return images;
}

export type Files = Record<string, string | Omit<TarEntry, "path">>;

export function contextOf(files: Files): ReadableStream<Uint8Array> {
  const entries = Object.entries(files).map(([path, file]): TarEntry =>
    typeof file === "string" ? { path, data: file } : { path, ...file }
  );
  return new Blob([tar(entries)]).stream();
}

export interface Built {
  result: BuildResult;
  events: BuildEvent[];
  /** Everything the steps printed. */
  output: string;
}

/** Builds a Dockerfile with a context of these files. */
export async function build(
  builder: Builder,
  files: Files,
  request: Partial<BuildRequest> & { signal?: AbortSignal; onEvent?: (event: BuildEvent) => void } =
    {},
): Promise<Built> {
  const events: BuildEvent[] = [];
  const { signal, onEvent, ...rest } = request;
  const result = await builder.build({
    tags: ["result"],
    dockerfile: "Dockerfile",
    buildArgs: {},
    labels: {},
    noCache: false,
    context: contextOf(files),
    ...rest,
  }, {
    onEvent: (event) => {
      events.push(event);
      onEvent?.(event);
    },
    signal,
  });
  return { result, events, output: outputOf(events) };
}

export function outputOf(events: BuildEvent[]): string {
  return events.map((event) => event.type === "output" ? event.text : "").join("");
}

/** Names of the vertices that have an event of this kind. */
export function namesOf(events: BuildEvent[], type: "cached" | "done" | "failed"): string[] {
  const names = new Map(
    events.flatMap((event) => event.type === "vertex" ? [[event.id, event.name]] : []),
  );
  return events.flatMap((event) => event.type === type ? [names.get(event.id)!] : []);
}

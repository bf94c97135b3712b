/** What the mirror's tests share: an upstream of maps that can misbehave, and a registry that mirrors it. */
import { openMemStore } from "../../../backends/store/mem.ts";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { digestOf, verified } from "../../oci/digest.ts";
import type { BlobBody, ByteRange, ReadOptions, ResolvedManifest } from "../../oci/image.ts";
import { type Descriptor, type Digest, MEDIA } from "../../oci/types.ts";
import { createContentStore } from "../../store/content.ts";
import { registry } from "../fixture_test.ts";
import { type MirrorOptions, openMirror } from "./mirror.ts";
import type { UpstreamSource } from "./upstreams.ts";

export const encode = (text: string) => new TextEncoder().encode(text);

export class FakeUpstream implements UpstreamSource {
  blobs = new Map<Digest, Uint8Array>();
  /** "repository:reference" → manifest. */
  manifests = new Map<string, ResolvedManifest>();
  referring: Descriptor[] = [];
  /** Calls in order: "get app sha256:…". */
  asked: string[] = [];
  /** Every call fails with it. */
  failure?: Error;
  /** The whole blob's bytes as they go out; default: at once. */
  serve?: (bytes: Uint8Array) => ReadableStream<Uint8Array>;
  /** Every call waits for it first. */
  hold?: Promise<unknown>;

  async #called(name: string, repository: string, what = "", signal?: AbortSignal) {
    this.asked.push(`${name} ${repository} ${what}`.trim());
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    aborted.catch(() => {});
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
    await Promise.race([this.hold, aborted]);
    if (this.failure) throw this.failure;
  }

  /** How often a call of that beginning was made. */
  count(beginning: string): number {
    return this.asked.filter((line) => line.startsWith(beginning)).length;
  }

  down(): void {
    this.failure = new SvcError("upstream_failed", "Cannot reach registry up.example: refused");
  }

  addBlob(bytes: Uint8Array): Descriptor {
    const digest = digestOf(bytes);
    this.blobs.set(digest, bytes);
    return { mediaType: MEDIA.layerTar, digest, size: bytes.length };
  }

  addManifest(repository: string, document: unknown, mediaType: string, ...tags: string[]) {
    const bytes = encode(JSON.stringify(document));
    const descriptor = { mediaType, digest: digestOf(bytes), size: bytes.length };
    for (const reference of [descriptor.digest, ...tags]) {
      this.manifests.set(`${repository}:${reference}`, { descriptor, bytes });
    }
    return descriptor;
  }

  /** An image of one layer. */
  addImage(repository: string, layer: Uint8Array, ...tags: string[]) {
    const layers = [this.addBlob(layer)];
    const config = {
      ...this.addBlob(encode(`{"of":"${layers[0].digest}"}`)),
      mediaType: MEDIA.config,
    };
    const document = { schemaVersion: 2, mediaType: MEDIA.manifest, config, layers };
    return { ...this.addManifest(repository, document, MEDIA.manifest, ...tags), config, layers };
  }

  async resolve(repository: string, reference: string, { signal }: ReadOptions = {}) {
    await this.#called("resolve", repository, reference, signal);
    return this.manifests.get(`${repository}:${reference}`);
  }

  async head(repository: string, reference: string, { signal }: ReadOptions = {}) {
    await this.#called("head", repository, reference, signal);
    const found = this.manifests.get(`${repository}:${reference}`);
    return found && { digest: found.descriptor.digest };
  }

  async stat(repository: string, digest: Digest, { signal }: ReadOptions = {}) {
    await this.#called("stat", repository, digest, signal);
    const bytes = this.blobs.get(digest);
    return bytes && { size: bytes.length };
  }

  async get(
    repository: string,
    digest: Digest,
    { range, signal }: ReadOptions & { range?: ByteRange } = {},
  ): Promise<BlobBody | undefined> {
    await this.#called(range ? `range ${range.start}` : "get", repository, digest, signal);
    const bytes = this.blobs.get(digest);
    if (!bytes) return undefined;
    if (range) {
      const part = bytes.slice(range.start, (range.end ?? bytes.length - 1) + 1);
      return { size: part.length, stream: () => new Blob([part]).stream() };
    }
    const serve = this.serve ?? ((all) => new Blob([new Uint8Array(all)]).stream());
    return { size: bytes.length, stream: () => verified(serve(bytes), digest, bytes.length) };
  }

  async *tags(repository: string, options: ReadOptions & { after?: string } = {}) {
    await this.#called("tags", repository);
    const names = [...this.manifests.keys()].filter((key) => key.startsWith(`${repository}:`))
      .map((key) => key.slice(repository.length + 1)).filter((tag) => !tag.includes(":"));
    for (const tag of names.sort()) {
      if (options.after === undefined || tag > options.after) yield tag;
    }
  }

  async *referrers(repository: string, digest: Digest) {
    await this.#called("referrers", repository, digest);
    yield* this.referring;
  }
}

/** A registry that mirrors `upstream`; times are short. Give `objects` to open the same store again. */
export async function mirrored(
  upstream: FakeUpstream,
  options: Partial<MirrorOptions> & { prefix?: string } = {},
) {
  const folder = await Deno.makeTempDir({ prefix: "svc-mirror-test-" });
  const objects = options.objects ?? openMemStore();
  const store = options.store ?? createContentStore(objects, { log: silent });
  const mirror = await openMirror({
    upstreams: [{ prefix: options.prefix, host: "up.example", source: upstream }],
    cache: true,
    spool: `${folder}/spool`,
    log: silent,
    freshMs: 0,
    pauseMs: 0,
    revalidateMs: 60_000,
    ...options,
    store,
    objects,
  });
  return {
    ...registry(store, { reader: mirror, writer: mirror }),
    mirror,
    store,
    objects,
    folder,
    async [Symbol.asyncDispose]() {
      await mirror[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Everything a body yields. */
export async function read(body: BlobBody | undefined): Promise<Uint8Array> {
  if (!body) throw new Error("there is no blob");
  return new Uint8Array(await new Response(body.stream() as BodyInit).arrayBuffer());
}

/** Pseudo-random bytes, the same for the same seed. */
export function noise(size: number, seed = 1): Uint8Array {
  const bytes = new Uint8Array(size);
  let state = seed;
  for (let at = 0; at < size; at++) {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    bytes[at] = state >> 16;
  }
  return bytes;
}

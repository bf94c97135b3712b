/** Manifests in containerd's content store, and what they lead to. */
import { MAX_MANIFEST_BYTES, type ParsedManifest, parseManifest } from "../../oci/manifest.ts";
import { SvcError } from "../../base/errors.ts";
import type { ResolvedManifest } from "../../oci/image.ts";
import type { Descriptor, Digest } from "../../oci/types.ts";
import { Lru } from "../../store/lru.ts";
import type { ContainerdContent } from "../content.ts";

/** Bytes of manifests that are remembered: what a digest names never changes. */
const CACHED_BYTES = 16 * 1024 * 1024;

export type Target = Pick<Descriptor, "digest"> & { mediaType?: string };

export class StoredManifests {
  readonly #content: ContainerdContent;
  readonly #bytes = new Lru<Uint8Array>(CACHED_BYTES, (bytes) => bytes.length + 256);

  constructor(content: ContainerdContent) {
    this.#content = content;
  }

  /** Undefined where the content is missing, or too large for a manifest. */
  async read(digest: Digest, signal?: AbortSignal): Promise<Uint8Array | undefined> {
    const info = await this.#content.info(digest, { signal });
    if (!info || info.size > MAX_MANIFEST_BYTES) return undefined;
    const known = this.#bytes.get(digest);
    if (known) return known;
    const body = await this.#content.body({ digest, size: info.size }, { signal });
    const bytes = await new Response(body.stream() as BodyInit).bytes();
    this.#bytes.set(digest, bytes);
    return bytes;
  }

  /** Undefined where the content is missing or is no manifest that a registry serves. */
  async parsed(
    { digest, mediaType }: Target,
    signal?: AbortSignal,
  ): Promise<{ manifest: ParsedManifest; bytes: Uint8Array } | undefined> {
    const bytes = await this.read(digest, signal);
    if (!bytes) return undefined;
    try {
      return { manifest: parseManifest(bytes, mediaType || undefined), bytes };
    } catch (error) {
      if (error instanceof SvcError) return undefined;
      throw error;
    }
  }

  async resolved(target: Target, signal?: AbortSignal): Promise<ResolvedManifest | undefined> {
    const found = await this.parsed(target, signal);
    if (!found) return undefined;
    const { manifest: { mediaType }, bytes } = found;
    return { descriptor: { mediaType, digest: target.digest, size: bytes.length }, bytes };
  }

  /** The manifest and all below it; each once, with what it names. Those that are missing are left out. */
  async *below(
    target: Target,
    signal?: AbortSignal,
    seen: Set<Digest> = new Set(),
  ): AsyncGenerator<{ target: Target; manifest: ParsedManifest }> {
    if (seen.has(target.digest)) return;
    seen.add(target.digest);
    const found = await this.parsed(target, signal);
    if (!found) return;
    yield { target, manifest: found.manifest };
    for (const child of found.manifest.manifests) yield* this.below(child, signal, seen);
  }
}

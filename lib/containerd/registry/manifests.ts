/** Manifests in containerd's content store, and what they lead to. */
import { MAX_MANIFEST_BYTES, type ParsedManifest, parseManifest } from "../../oci/manifest.ts";
import { SvcError } from "../../base/errors.ts";
import type { ResolvedManifest } from "../../oci/image.ts";
import { type Descriptor, type Digest, MEDIA } from "../../oci/types.ts";
import { Lru } from "../../store/lru.ts";
import type { ContainerdContent } from "../content.ts";

/** Bytes of manifests that are remembered: what a digest names never changes. */
const CACHED_BYTES = 16 * 1024 * 1024;

/** Of indexes in one another. */
const MAX_DEPTH = 8;
/** Manifests that one index may name where it is pushed. */
const MAX_CHILDREN = 1000;
/** Manifests that one look for a digest reads. */
const MAX_READ = 10_000;

export type Target = Pick<Descriptor, "digest"> & { mediaType?: string };

/** What is declared an image has nothing below it, whatever it says. */
const mayBeIndex = ({ mediaType }: Target) =>
  mediaType !== MEDIA.manifest && mediaType !== MEDIA.dockerManifest;

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

  /**
   * The indexes among the manifests and below them, level by level; each once. Those that are missing are left out,
   * and so is what is deeper than {@linkcode MAX_DEPTH} or comes after {@linkcode MAX_READ} manifests.
   */
  async *indexes(
    targets: readonly Target[],
    signal?: AbortSignal,
  ): AsyncGenerator<{ manifest: ParsedManifest; depth: number }> {
    const seen = new Set<Digest>();
    let level = targets;
    for (let depth = 1; level.length > 0 && depth <= MAX_DEPTH; depth++) {
      const next: Target[] = [];
      for (const target of level) {
        if (seen.has(target.digest) || !mayBeIndex(target)) continue;
        if (seen.size >= MAX_READ) return;
        seen.add(target.digest);
        const found = await this.parsed(target, signal);
        if (found?.manifest.kind !== "index") continue;
        yield { manifest: found.manifest, depth };
        for (const child of found.manifest.manifests) {
          if (next.length < MAX_READ && mayBeIndex(child)) next.push(child);
        }
      }
      level = next;
    }
  }

  /** Throws `manifest_invalid` for an index that would make every look for a manifest in its repository long. */
  async checkIndex({ manifests }: ParsedManifest, signal?: AbortSignal): Promise<void> {
    const refuse = (why: string) => {
      throw new SvcError("manifest_invalid", `Cannot accept the manifest: ${why}`);
    };
    if (manifests.length > MAX_CHILDREN) {
      refuse(`it names ${manifests.length} manifests, the limit is ${MAX_CHILDREN}`);
    }
    for await (const { depth } of this.indexes(manifests, signal)) {
      if (depth === MAX_DEPTH) refuse(`more than ${MAX_DEPTH} indexes are in one another`);
    }
  }
}

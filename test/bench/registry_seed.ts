/**
 * Stores of many small things, written as each registry lays them out on disk: pushing them would take
 * longer than what is measured. Nothing is synced.
 */
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { blobKey, manifestKey, repoKey, tagKey } from "../../lib/store/keys.ts";

export const INDEX = "application/vnd.oci.image.index.v1+json";
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

export interface Seeder {
  blob(bytes: Uint8Array): string;
  /** `references` are blobs that were written before. */
  manifest(
    repository: string,
    bytes: Uint8Array,
    about: { mediaType: string; references: string[]; tags: string[] },
  ): void;
}

const digestOf = (bytes: Uint8Array) =>
  `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

function writer(root: string) {
  const made = new Set<string>();
  return (path: string, bytes: string | Uint8Array) => {
    const at = join(root, path);
    const folder = dirname(at);
    if (!made.has(folder)) {
      Deno.mkdirSync(folder, { recursive: true });
      made.add(folder);
    }
    if (typeof bytes === "string") Deno.writeTextFileSync(at, bytes);
    else Deno.writeFileSync(at, bytes);
  };
}

/** `root`: a folder `registry/objects` of a data directory. */
export function svcSeeder(root: string): Seeder {
  const write = writer(root);
  const blob = (bytes: Uint8Array) => {
    const digest = digestOf(bytes);
    write(blobKey(digest), bytes);
    return digest;
  };
  return {
    blob,
    manifest(repository, bytes, { mediaType, references, tags }) {
      const digest = blob(bytes);
      const record = { mediaType, size: bytes.length, references };
      write(repoKey(repository), "");
      write(manifestKey(repository, digest), encode(record));
      for (const tag of tags) write(tagKey(repository, tag), digest);
    },
  };
}

/** `root`: the folder that docker-registry has as its `rootdirectory`. */
export function dockerSeeder(root: string): Seeder {
  const write = writer(join(root, "docker/registry/v2"));
  const hexOf = (digest: string) => digest.slice("sha256:".length);
  const blob = (bytes: Uint8Array) => {
    const digest = digestOf(bytes);
    const hex = hexOf(digest);
    write(`blobs/sha256/${hex.slice(0, 2)}/${hex}/data`, bytes);
    return digest;
  };
  return {
    blob,
    manifest(repository, bytes, { references, tags }) {
      const digest = blob(bytes);
      const base = `repositories/${repository}`;
      for (const reference of references) {
        write(`${base}/_layers/sha256/${hexOf(reference)}/link`, reference);
      }
      write(`${base}/_manifests/revisions/sha256/${hexOf(digest)}/link`, digest);
      for (const tag of tags) {
        const at = `${base}/_manifests/tags/${tag}`;
        write(`${at}/current/link`, digest);
        write(`${at}/index/sha256/${hexOf(digest)}/link`, digest);
      }
    },
  };
}

/** Repositories with one tag each, and one repository with as many tags. */
export function seedNames(seeder: Seeder, count: number): void {
  const bytes = encode({ schemaVersion: 2, mediaType: INDEX, manifests: [] });
  const about = { mediaType: INDEX, references: [] };
  for (let n = 0; n < count; n++) seeder.manifest(`many/r${n}`, bytes, { ...about, tags: ["v1"] });
  seeder.manifest("bench/tags", bytes, {
    ...about,
    tags: Array.from({ length: count }, (_, n) => `t${n}`),
  });
}

const LAYERS = 10;
/** Images of one repository. */
const IMAGES = 50;

/** `count` blobs that manifests refer to or are, a dozen to each image. Gives how many there are. */
export function seedImages(seeder: Seeder, count: number): number {
  let blobs = 0;
  for (let image = 0; blobs < count; image++) {
    const config = encode({ image });
    const described = (mediaType: string, bytes: Uint8Array) => ({
      mediaType,
      digest: seeder.blob(bytes),
      size: bytes.length,
    });
    const manifest = {
      schemaVersion: 2,
      mediaType: MANIFEST,
      config: described("application/vnd.oci.image.config.v1+json", config),
      layers: Array.from(
        { length: LAYERS },
        (_, n) => described("application/vnd.oci.image.layer.v1.tar", encode({ image, layer: n })),
      ),
    };
    seeder.manifest(`team/app${Math.floor(image / IMAGES)}`, encode(manifest), {
      mediaType: MANIFEST,
      references: [manifest.config, ...manifest.layers].map((item) => item.digest),
      tags: [`v${image % IMAGES}`],
    });
    blobs += LAYERS + 2;
  }
  return blobs;
}

/** Blobs that nothing refers to. */
export function seedGarbage(seeder: Seeder, count: number, round: number): void {
  for (let n = 0; n < count; n++) seeder.blob(encode({ garbage: n, round }));
}

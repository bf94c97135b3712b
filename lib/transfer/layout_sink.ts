/** Writes an OCI image layout in a folder; other images in the layout stay. */
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import { ensureDir, exists, syncDir, writeFileAtomic } from "../base/fs.ts";
import { blobPath, IMAGE_NAME, indexEntries, LAYOUT_VERSION, REF_NAME } from "../oci/layout.ts";
import { directoryFiles, readDocument } from "../oci/layout_files.ts";
import { type Descriptor, type Index, MEDIA } from "../oci/types.ts";
import { fill } from "./fill.ts";
import { lockFile } from "./lock_file.ts";
import type { Part, Plan } from "./plan.ts";
import type { BlobCall, BlobOrigin, Outcome, TransferSink } from "./sink.ts";

/** Folder of incomplete blobs, beside `blobs/`: other tools expect only complete blobs there. */
const PARTIAL = ".partial";

/** The index entry of a part: its descriptor, its name, and the artifact type if it has one. */
export function indexEntry({ descriptor, parsed }: Part, name?: string): Descriptor {
  const { mediaType, digest, size } = descriptor;
  const artifactType = parsed.kind === "image" ? parsed.document.artifactType : undefined;
  return {
    mediaType,
    digest,
    size,
    ...(artifactType && { artifactType }),
    ...(name !== undefined && { annotations: { [REF_NAME]: name } }),
  };
}

export class LayoutSink implements TransferSink {
  readonly single = false;
  readonly #root: string;
  readonly #name?: string;
  #partial = false;

  /** `name`: the image's tag in the layout. */
  constructor(root: string, name?: string) {
    this.#root = root;
    this.#name = name;
  }

  #path(path: string): string {
    return join(this.#root, path);
  }

  async begin(): Promise<void> {
    if (await exists(this.#path("index.json"))) {
      if (await exists(this.#path("oci-layout"))) return;
    } else if (await exists(this.#root)) {
      for await (const { name } of Deno.readDir(this.#root)) {
        // An earlier transfer may have stopped before it wrote the index.
        if (["oci-layout", "blobs", PARTIAL].includes(name)) continue;
        throw this.#refuse(`the folder is not an OCI layout (it holds ${name})`);
      }
    }
    await ensureDir(this.#path("blobs"));
    await writeFileAtomic(this.#path("oci-layout"), LAYOUT_VERSION);
  }

  #refuse(why: string): SvcError {
    return new SvcError("argument_invalid", `Cannot write to ${this.#root}: ${why}`, {
      help: "name a new folder, or one that is an OCI layout",
    });
  }

  async blob(descriptor: Descriptor, origin: BlobOrigin, call: BlobCall): Promise<Outcome> {
    const { digest, size } = descriptor;
    const final = this.#path(blobPath(digest));
    const there = async () => (await directoryFiles(this.#root).size(blobPath(digest))) === size;
    if (await there()) return "exists";
    await ensureDir(join(final, ".."));
    await ensureDir(this.#path(PARTIAL));
    const path = this.#path(join(PARTIAL, digest.replace(":", "-")));
    this.#partial = true;
    using _lock = await lockFile(path, call.signal);
    // Another transfer may have written the blob while this one waited for the lock.
    if (await there()) return "exists";
    const have = await Deno.stat(path).then((info) => Math.min(info.size, size), () => 0);
    await fill({ path, base: 0, have, sync: true }, descriptor, origin, call);
    await Deno.rename(path, final);
    await syncDir(join(final, ".."));
    return "copied";
  }

  async finish(plan: Plan, signal: AbortSignal): Promise<string[]> {
    const { root, children, referrers } = plan;
    for (const { descriptor, bytes } of [...children, root, ...referrers]) {
      signal.throwIfAborted();
      const path = this.#path(blobPath(descriptor.digest));
      await ensureDir(join(path, ".."));
      await writeFileAtomic(path, bytes);
    }
    using _lock = await lockFile(this.#path("oci-layout"), signal);
    const files = directoryFiles(this.#root);
    const before = await readDocument(files, "index.json", signal) as Index | undefined;
    const kept = (before ? indexEntries(before, this.#root) : []).filter((entry) => {
      const name = entry.annotations?.[REF_NAME] ?? entry.annotations?.[IMAGE_NAME];
      return name === undefined ? entry.digest !== root.descriptor.digest : name !== this.#name;
    });
    const more = referrers.filter((part) =>
      part.parsed.subject && !kept.some((entry) => entry.digest === part.descriptor.digest)
    );
    const index: Index = {
      ...(before ?? { schemaVersion: 2, mediaType: MEDIA.index }),
      manifests: [
        ...kept,
        indexEntry(root, this.#name),
        ...more.map((part) => indexEntry(part)),
      ],
    };
    await writeFileAtomic(this.#path("index.json"), JSON.stringify(index));
    this.#partial = false;
    return [`oci:${this.#root}${this.#name === undefined ? "" : `:${this.#name}`}`];
  }

  kept(): string | undefined {
    return this.#partial ? this.#path(PARTIAL) : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#path(PARTIAL)).catch(() => {/* not there, or still of use */});
  }
}

/**
 * Writes a tar archive: an OCI archive, or a docker archive that is also an OCI archive. All sizes are known
 * beforehand: blobs are written in parallel, each at its final offset, and nothing is copied twice. The file is
 * written beside its path and renamed when it is complete; a broken transfer can be continued.
 */
import { dirname } from "node:path";
import { SvcError, systemCode } from "../base/errors.ts";
import { readJson, syncDir, writeFileAtomic } from "../base/fs.ts";
import { digestOf } from "../oci/digest.ts";
import { blobPath, IMAGE_NAME, LAYOUT_VERSION, REF_NAME } from "../oci/layout.ts";
import { padding } from "../oci/tar.ts";
import { tarEnd, tarHeader } from "../oci/tar_write.ts";
import { type Descriptor, type Digest, type Index, MEDIA } from "../oci/types.ts";
import { fill } from "./fill.ts";
import { indexEntry } from "./layout_sink.ts";
import type { Plan } from "./plan.ts";
import type { BlobCall, BlobOrigin, Outcome, TransferSink } from "./sink.ts";

interface Journal {
  /** Digest of all headers: identifies the archive that the bytes belong to. */
  layout: Digest;
  /** Bytes that are written, by blob. */
  written: Record<Digest, number>;
}

/** The journal is written after this many new bytes. */
const NOTE_EVERY = 16 * 1024 * 1024;

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

const FOREIGN_LAYER = /\.foreign\.|\.nondistributable\./;

/** The manifest.json that `docker load` reads. Throws `unsupported` for an image of another kind. */
function savedImages({ root }: Plan, names: readonly string[]): unknown {
  const { parsed } = root;
  const refuse = (why: string) =>
    new SvcError("unsupported", `Cannot write a docker archive: ${why}`, {
      help: "write an oci: or oci-archive: instead",
    });
  if (parsed.kind !== "image") throw refuse("the image has several platforms");
  const { config, layers } = parsed.document;
  if (config.mediaType !== MEDIA.config && config.mediaType !== MEDIA.dockerConfig) {
    throw refuse(`this is an artifact, not an image (${config.mediaType})`);
  }
  if (layers.some((layer) => FOREIGN_LAYER.test(layer.mediaType))) {
    throw refuse("the image has layers that are not distributed with it");
  }
  return [{
    Config: blobPath(config.digest),
    RepoTags: names.length > 0 ? names : null,
    Layers: layers.map((layer) => blobPath(layer.digest)),
  }];
}

export interface ArchiveSinkOptions {
  path: string;
  kind: "docker-archive" | "oci-archive";
  /** A name for a docker archive, a tag for an OCI archive. */
  name?: string;
}

export class ArchiveSink implements TransferSink {
  readonly single: boolean;
  readonly #options: ArchiveSinkOptions;
  readonly #partial: string;
  readonly #journalPath: string;
  readonly #offsets = new Map<Digest, number>();
  #journal: Journal = { layout: "", written: {} };
  #unnoted = 0;
  #noting: Promise<void> = Promise.resolve();
  #file?: Deno.FsFile;
  #finished = false;

  constructor(options: ArchiveSinkOptions) {
    this.#options = options;
    this.single = options.kind === "docker-archive";
    this.#partial = `${options.path}.partial`;
    this.#journalPath = `${options.path}.partial.json`;
  }

  /** The files whose bytes are known before blobs are transferred. */
  #documents(plan: Plan): [path: string, bytes: Uint8Array][] {
    const { kind, name } = this.#options;
    const { root, children, referrers } = plan;
    const docker = kind === "docker-archive";
    const tag = docker ? /:([^:/]+)$/.exec(name ?? "")?.[1] : name;
    const entry = indexEntry(root, tag);
    if (docker && name !== undefined) {
      entry.annotations = { [IMAGE_NAME]: name, ...(tag && { [REF_NAME]: tag }) };
    }
    const subjects = referrers.filter((part) => part.parsed.subject);
    const index: Index = {
      schemaVersion: 2,
      mediaType: MEDIA.index,
      manifests: [entry, ...subjects.map((part) => indexEntry(part))],
    };
    return [
      ["oci-layout", new TextEncoder().encode(LAYOUT_VERSION)],
      ["index.json", encode(index)],
      ...(docker
        ? [["manifest.json", encode(savedImages(plan, name === undefined ? [] : [name]))]] as const
        : []).map(([path, bytes]): [string, Uint8Array] => [path, bytes]),
      ...[...children, root, ...referrers].map((
        { descriptor, bytes },
      ): [string, Uint8Array] => [blobPath(descriptor.digest), bytes]),
    ];
  }

  async begin(plan: Plan, signal: AbortSignal): Promise<void> {
    const { path } = this.#options;
    const documents = this.#documents(plan);
    let offset = 0;
    const pieces: { at: number; bytes: Uint8Array }[] = [];
    const add = (name: string, size: number, bytes?: Uint8Array): number => {
      const header = tarHeader({ path: name, type: "file", size });
      pieces.push({ at: offset, bytes: header });
      const start = offset + header.length;
      if (bytes) pieces.push({ at: start, bytes });
      offset = start + size + padding(size);
      return start;
    };
    for (const [name, bytes] of documents) add(name, bytes.length, bytes);
    for (const { digest, size } of plan.blobs) {
      this.#offsets.set(digest, add(blobPath(digest), size));
    }
    const layout = digestOf(encode(pieces.map(({ at, bytes }) => [at, digestOf(bytes)])));
    this.#file = await this.#open();
    const before = await readJson<Journal>(this.#journalPath).catch(() => undefined);
    if (before?.layout === layout && before.written) this.#journal = before;
    else {
      await this.#file.truncate(0);
      this.#journal = { layout, written: {} };
    }
    // Bytes that were never written are zeros, which is what the padding between entries and the end must be.
    await this.#file.truncate(offset + tarEnd().length);
    for (const { at, bytes } of pieces) {
      signal.throwIfAborted();
      await this.#file.seek(at, Deno.SeekMode.Start);
      for (let done = 0; done < bytes.length;) {
        done += await this.#file.write(bytes.subarray(done));
      }
    }
    if (await Deno.stat(path).then((info) => info.isDirectory, () => false)) {
      throw new SvcError("argument_invalid", `Cannot write ${path}: it is a folder`);
    }
  }

  async #open(): Promise<Deno.FsFile> {
    const { path } = this.#options;
    let file: Deno.FsFile;
    try {
      file = await Deno.open(this.#partial, { read: true, write: true, create: true });
    } catch (cause) {
      const code = systemCode(cause);
      const why = code === "ENOENT" || code === "ENOTDIR"
        ? "there is no such folder"
        : code === "EACCES" || code === "EROFS"
        ? "permission denied"
        : undefined;
      if (!why) throw cause;
      throw new SvcError("argument_invalid", `Cannot write ${path}: ${why}`, { cause });
    }
    if (await file.tryLock(true)) return file;
    file.close();
    throw new SvcError("conflict", `Cannot write ${path}: another svc writes to it`);
  }

  async blob({ digest, mediaType, size }: Descriptor, origin: BlobOrigin, call: BlobCall) {
    const { written } = this.#journal;
    const have = Math.min(written[digest] ?? 0, size);
    await fill(
      {
        path: this.#partial,
        base: this.#offsets.get(digest)!,
        have,
        sync: false,
        note: (bytes) => {
          this.#unnoted += Math.max(0, bytes - (written[digest] ?? 0));
          written[digest] = bytes;
          if (this.#unnoted >= NOTE_EVERY) this.#note();
        },
      },
      { digest, mediaType, size },
      origin,
      call,
    );
    return (have === size && size > 0 ? "exists" : "copied") satisfies Outcome;
  }

  /** Writes the journal after the previous write has ended. */
  #note(): void {
    this.#unnoted = 0;
    this.#noting = this.#noting.then(() =>
      writeFileAtomic(this.#journalPath, JSON.stringify(this.#journal))
    ).catch(() => {
      // Without the journal an interrupted transfer starts again; this transfer does not need it.
    });
  }

  async finish(_plan: Plan, signal: AbortSignal): Promise<string[]> {
    const { path, kind, name } = this.#options;
    await this.#noting;
    signal.throwIfAborted();
    await this.#file!.sync();
    await Deno.rename(this.#partial, path);
    this.#finished = true;
    await Deno.remove(this.#journalPath).catch(() => {/* it was short: none was written */});
    await syncDir(dirname(path) || ".");
    return [`${kind}:${path}${name === undefined ? "" : `:${name}`}`];
  }

  kept(): string | undefined {
    return !this.#finished && Object.values(this.#journal.written).some((bytes) => bytes > 0)
      ? this.#partial
      : undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#file) return;
    if (this.kept()) this.#note();
    await this.#noting;
    if (!this.#finished && !this.kept()) {
      await Deno.remove(this.#partial).catch(() => {/* gone already */});
      await Deno.remove(this.#journalPath).catch(() => {/* never written */});
    }
    this.#file.close();
  }
}

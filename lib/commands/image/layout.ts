/** Writes the image of companions as an OCI image layout. */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { createGzip } from "node:zlib";
import { createHash } from "../../base/hash.ts";
import { padding } from "../../oci/tar.ts";
import { tarEnd, tarHeader } from "../../oci/tar_write.ts";
import { agentContent, type Content, type Entry } from "./content.ts";

const LAYER = "application/vnd.oci.image.layer.v1.tar+gzip";
const CONFIG = "application/vnd.oci.image.config.v1+json";
const MANIFEST = "application/vnd.oci.image.manifest.v1+json";
/** The same executable gives the same image. */
const EPOCH = "1970-01-01T00:00:00Z";

interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
}

const inArchive = (path: string) => path.slice(1);

/** The folders above the entries, each once and before what is in it; not those that are links. */
function folders(entries: readonly Entry[]): string[] {
  const links = new Set(entries.filter(({ kind }) => kind === "link").map(({ path }) => path));
  const found = new Set<string>();
  for (const { path } of entries) {
    const parts = inArchive(path).split("/").slice(0, -1);
    parts.forEach((_, index) => found.add(`/${parts.slice(0, index + 1).join("/")}`));
  }
  return [...found].filter((path) => !links.has(path)).sort();
}

async function* fileContent(path: string, size: number): AsyncGenerator<Uint8Array> {
  using file = await Deno.open(path);
  for (let left = size; left > 0;) {
    const buffer = new Uint8Array(Math.min(256 * 1024, left));
    const count = await file.read(buffer);
    if (count === null) throw new Error(`${path} became shorter while it was read`);
    left -= count;
    yield buffer.subarray(0, count);
  }
  yield new Uint8Array(padding(size));
}

async function* archive({ entries }: Content): AsyncGenerator<Uint8Array> {
  for (const path of folders(entries)) {
    yield tarHeader({ path: inArchive(path), type: "directory", mode: 0o755 });
  }
  for (const entry of entries) {
    const path = inArchive(entry.path);
    if (entry.kind === "folder") yield tarHeader({ path, type: "directory", mode: entry.mode });
    else if (entry.kind === "link") yield tarHeader({ path, type: "symlink", linkpath: entry.to });
    else if (entry.kind === "text") {
      const bytes = new TextEncoder().encode(entry.text);
      yield tarHeader({ path, type: "file", size: bytes.length, mode: 0o644 });
      yield bytes;
      yield new Uint8Array(padding(bytes.length));
    } else {
      const { size } = await Deno.stat(entry.from);
      yield tarHeader({ path, type: "file", size, mode: entry.mode });
      yield* fileContent(entry.from, size);
    }
  }
  yield tarEnd();
}

/** Writes the layer; `diffId` is the digest of what is in it. */
async function writeLayer(
  blobs: string,
  content: Content,
  signal: AbortSignal,
): Promise<Descriptor & { diffId: string }> {
  const [plain, packed] = [createHash("sha256"), createHash("sha256")];
  const temporary = join(blobs, "layer");
  const gzip = createGzip({ level: 1 });
  const file = createWriteStream(temporary);
  let size = 0;
  gzip.on("data", (chunk) => {
    packed.update(chunk);
    size += chunk.length;
  });
  gzip.pipe(file);
  for await (const chunk of archive(content)) {
    signal.throwIfAborted();
    plain.update(chunk);
    if (!gzip.write(chunk)) await once(gzip, "drain");
  }
  gzip.end();
  await once(file, "close");
  const hex = packed.digest("hex");
  await Deno.rename(temporary, join(blobs, hex));
  return {
    mediaType: LAYER,
    digest: `sha256:${hex}`,
    size,
    diffId: `sha256:${plain.digest("hex")}`,
  };
}

/** The image, under this tag, in an empty folder. Throws as {@linkcode agentContent}. */
export async function writeAgentLayout(
  folder: string,
  tag: string,
  signal: AbortSignal,
): Promise<void> {
  const content = agentContent();
  const blobs = join(folder, "blobs/sha256");
  await Deno.mkdir(blobs, { recursive: true });
  const put = async (mediaType: string, value: unknown): Promise<Descriptor> => {
    const bytes = new TextEncoder().encode(JSON.stringify(value));
    const hex = createHash("sha256").update(bytes).digest("hex");
    await Deno.writeFile(join(blobs, hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const { diffId, ...layer } = await writeLayer(blobs, content, signal);
  const config = await put(CONFIG, {
    created: EPOCH,
    os: "linux",
    architecture: Deno.build.arch === "aarch64" ? "arm64" : "amd64",
    config: {
      Entrypoint: content.entrypoint,
      Cmd: ["caretaker"],
      Env: ["DENO_DIR=/tmp/deno", "DENO_NO_UPDATE_CHECK=1", "DENO_TLS_CA_STORE=system,mozilla"],
      Labels: {
        "org.opencontainers.image.title": "svc-agent",
        "org.opencontainers.image.version": tag,
      },
    },
    rootfs: { type: "layers", diff_ids: [diffId] },
    history: [{ created: EPOCH, created_by: "svc image agent" }],
  });
  const manifest = await put(MANIFEST, {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config,
    layers: [layer],
  });
  const annotations = { "org.opencontainers.image.ref.name": tag };
  await Deno.writeTextFile(join(folder, "oci-layout"), '{"imageLayoutVersion":"1.0.0"}');
  await Deno.writeTextFile(
    join(folder, "index.json"),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  );
}

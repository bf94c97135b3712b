/**
 * The builder's image, made by the container engine from this server's own executable
 * (SPEC "Builder delegation behaviour" 4).
 */
import { basename } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { SvcError } from "../../base/errors.ts";
import { readJson, writeFileAtomic } from "../../base/fs.ts";
import { createHash } from "../../base/hash.ts";
import { BUILDER } from "../../docker/builder_names.ts";
import type { DockerClient } from "../../docker/client.ts";
import { daemonStatus } from "../../docker/errors.ts";
import { readProgress } from "../../docker/messages.ts";
import { padding } from "../../oci/tar.ts";
import { tarEnd, tarHeader } from "../../oci/tar_write.ts";
import { parseReference } from "../../oci/reference.ts";
import { baseImageOf, readOsRelease } from "./base_image.ts";

/** Label of the image: the base that it was made from. */
const BASE_LABEL = "svc.builder.base";

/** Lines of the daemon's output that an error quotes. */
const QUOTED = 12;

export interface ImageOptions {
  engine: DockerClient;
  /** Path of this program; undefined where it runs from its sources. */
  executable?: string;
  /** SVC_BUILDER_IMAGE: this image is taken as it is. */
  image?: string;
  /** SVC_BUILDER_BASE_IMAGE; absent: the distribution of this system. */
  base?: string;
  /** File of this server's own: which image it made. Others may give the name of that to another image. */
  record: string;
  /** The proxies that this server needs: the image is built with them, and does not keep them. */
  proxies: Readonly<Record<string, string>>;
  /** Reads os-release; tests give another text. */
  osRelease?: () => Promise<string>;
  log: (message: string, fields: Record<string, unknown>) => void;
}

/**
 * What the builder needs besides the executable, by the packages of each distribution. Only runc must be there in
 * the end: without one of the others some builds fail, and say which program they lack.
 */
const INSTALL = `
lacks() { for program; do command -v "$program" >/dev/null 2>&1 || return 0; done; return 1; }
lacks runc ip iptables git unshare || exit 0
add() { for name; do $install "$name" || echo "svc: $name could not be installed"; done; }
if command -v apt-get; then
  apt-get update
  install="apt-get install -y --no-install-recommends"
  add runc containernetworking-plugins iptables iproute2 ca-certificates git
  rm -rf /var/lib/apt/lists/*
elif command -v apk; then
  install="apk add --no-cache"
  add runc cni-plugins iptables iproute2 ca-certificates git util-linux
elif command -v dnf; then
  install="dnf install -y"
  add runc containernetworking-plugins iptables iproute ca-certificates git-core util-linux
elif command -v zypper; then
  install="zypper --non-interactive install"
  add runc cni-plugins iptables iproute2 ca-certificates git-core util-linux
elif command -v pacman; then
  pacman -Sy
  install="pacman -S --noconfirm"
  add runc cni-plugins iptables iproute2 ca-certificates git
fi
if lacks runc; then
  echo "svc: the base image has no runc, and it could not be installed" >&2
  exit 1
fi
`;

/** The last step runs the executable: a base that lacks its libraries fails here, and not at the first build. */
const dockerfile = (base: string) =>
  `FROM ${base}
COPY install /usr/local/share/svc/install
RUN sh /usr/local/share/svc/install
COPY svc /usr/local/bin/svc
RUN ["/usr/local/bin/svc", "version"]
LABEL ${BASE_LABEL}=${JSON.stringify(base)}
`;

/** sha256 of a file, in hex. */
async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of (await Deno.open(path)).readable) hash.update(chunk);
  return hash.digest("hex");
}

/** The build context: the recipe and the executable. */
async function* context(base: string, executable: string): AsyncGenerator<Uint8Array> {
  const texts = { Dockerfile: dockerfile(base), install: INSTALL };
  for (const [path, text] of Object.entries(texts)) {
    const bytes = new TextEncoder().encode(text);
    yield tarHeader({ path, type: "file", size: bytes.length });
    yield bytes;
    yield new Uint8Array(padding(bytes.length));
  }
  using file = await Deno.open(executable);
  const { size } = await file.stat();
  yield tarHeader({ path: "svc", type: "file", size, mode: 0o755 });
  let sent = 0;
  // A stream of its own would close the file, too; and a file that grows must not damage the archive.
  const buffer = new Uint8Array(256 * 1024);
  for (let count; sent < size && (count = await file.read(buffer)) !== null;) {
    const part = buffer.slice(0, Math.min(count, size - sent));
    sent += part.length;
    yield part;
  }
  if (sent < size) throw new Error(`${basename(executable)} became shorter while it was read`);
  yield new Uint8Array(padding(size));
  yield tarEnd();
}

interface ImageInspect {
  Id: string;
  Config?: { Labels?: Record<string, string> | null };
}

async function inspect(engine: DockerClient, name: string): Promise<ImageInspect | undefined> {
  try {
    return await engine.json<ImageInspect>({
      path: `/images/${name}/json`,
      attempted: `Cannot look at image ${name}`,
    });
  } catch (error) {
    if (daemonStatus(error) === 404) return undefined;
    throw error;
  }
}

/** The id of an image that exists, or is made or pulled by this call. */
export async function builderImage(options: ImageOptions): Promise<string> {
  const { engine, image } = options;
  if (image === undefined) return await built(options);
  if (!await inspect(engine, image)) await pull(options, image);
  return await idOf(engine, image);
}

async function idOf(engine: DockerClient, image: string): Promise<string> {
  const found = await inspect(engine, image);
  if (found) return found.Id;
  throw new SvcError("upstream_failed", `Cannot start a builder: the daemon has no ${image}`, {
    help: "build again; somebody may have removed the image just now",
  });
}

async function pull({ engine, log }: ImageOptions, image: string): Promise<void> {
  const attempted = `Cannot pull the builder's image ${image}`;
  const { tag, digest } = parseReference(image);
  log("pulling the builder's image", { image });
  // Without a tag the daemon would pull every one.
  const query = { fromImage: image, ...(!tag && !digest && { tag: "latest" }) };
  const method = "POST";
  await readProgress(
    await engine.stream({ method, path: "/images/create", query, attempted, headMs: Infinity }),
    attempted,
  );
}

/** The image that this server made. */
interface Made {
  name: string;
  id: string;
}

/** The id of `svc-builder:<hash of the executable>`; an unchanged executable and base use the image again. */
async function built(options: ImageOptions): Promise<string> {
  const { engine, executable, record, proxies, log, osRelease = readOsRelease } = options;
  if (executable === undefined) {
    throw new SvcError(
      "prerequisite_missing",
      "Cannot make a builder: svc runs from its sources here, so there is no executable to copy",
      { help: "run the executable (deno task compile), or set SVC_BUILDER_IMAGE" },
    );
  }
  const base = options.base ?? baseImageOf(await osRelease());
  if (base === undefined) {
    throw new SvcError(
      "prerequisite_missing",
      "Cannot make a builder: no image of this system's distribution is known",
      {
        help:
          "set SVC_BUILDER_BASE_IMAGE to one that this executable runs in, or SVC_BUILDER_IMAGE",
      },
    );
  }
  // Checked as it becomes a line of the Dockerfile.
  parseReference(base);
  const name = `${BUILDER}:${await hashOf(executable)}`;
  const made = await readJson<Made>(record);
  const there = made?.name === name ? await inspect(engine, made.id) : undefined;
  if (there?.Config?.Labels?.[BASE_LABEL] === base) return there.Id;
  log("making the builder's image", { image: name, base });
  const id = await build(engine, { name, base, executable, args: proxies });
  await writeFileAtomic(record, JSON.stringify({ name, id } satisfies Made), { mode: 0o600 });
  return id;
}

/** Gives the id of what was made. */
async function build(
  engine: DockerClient,
  { name, base, executable, args }: {
    name: string;
    base: string;
    executable: string;
    args: Readonly<Record<string, string>>;
  },
): Promise<string> {
  const attempted = `Cannot make the builder's image from ${base}`;
  const words: string[] = [];
  let id: string | undefined;
  try {
    const body = await engine.stream({
      path: "/build",
      // The recipe is svc's own: in the host's network it reaches what the host reaches, packages above all.
      query: { t: name, rm: true, forcerm: true, networkmode: "host", buildargs: args },
      body: ReadableStream.from(context(base, executable)),
      attempted,
      headMs: Infinity,
    });
    await readProgress(body, attempted, ({ stream, aux }) => {
      id = (aux as { ID?: string } | undefined)?.ID ?? id;
      const text = stripVTControlCharacters(stream ?? "").trim();
      if (text !== "") words.push(text);
      words.splice(0, words.length - QUOTED);
    });
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "upstream_failed") throw error;
    throw new SvcError("prerequisite_missing", [error.message, ...words].join("\n"), {
      cause: error,
      help:
        "set SVC_BUILDER_BASE_IMAGE to an image that the daemon can pull and that has runc, or " +
        "SVC_BUILDER_IMAGE to a whole builder",
    });
  }
  // The name may be another image's by now: it counts only where the engine told no id.
  return await idOf(engine, id ?? name);
}

/** The build context as it is sent: a tar archive that is made while the folder is walked. */
import { formatBytes } from "../../base/bytes.ts";
import { coalesce } from "../../base/coalesce.ts";
import { createHash } from "../../base/hash.ts";
import { basename, isAbsolute, join, relative, sep } from "../../base/path.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";
import { readTextFile } from "../../base/text_file.ts";
import { ignoreFiles, parseIgnore } from "../../build/parse/ignore.ts";
import { LIMITS } from "../../build/parse/limits.ts";
import { type TarFields, TarWriter } from "../../oci/tar_write.ts";
import { inputError, readInput } from "../input.ts";
import { walkContext } from "./walk.ts";

export interface SentContext {
  /** URL from which the server fetches the context; the archive is then empty. */
  url?: string;
  /** The archive; no file is read before the archive is. */
  body: ReadableStream<Uint8Array>;
  /** Path of the Dockerfile inside the archive. */
  dockerfile: string;
  /** Absent where the context was given as an archive. */
  folder?: {
    root: string;
    /** Text of the ignore rules. */
    rules: string;
    /** Text of the Dockerfile. */
    dockerfile: string;
  };
  /** The Dockerfile for the report of a failure; no text where the context was given as an archive. */
  source: { name: string; text?: string };
  /** Replaces the Dockerfile's name in the archive by the name that the person gave. */
  shown: (text: string) => string;
}

const CHUNK = 256 * 1024;
/** Bytes of a Dockerfile or of ignore rules that the server accepts, at most. */
const MAX_DOCKERFILE = LIMITS.dockerfile;
const encoder = new TextEncoder();

/** Yields exactly `size` bytes: a file that has grown is cut, one that has shrunk is an error. */
async function* content(source: string, path: string, size: number): AsyncGenerator<Uint8Array> {
  using file = await Deno.open(source).catch((cause) => {
    throw inputError(path, "file of the build context", cause);
  });
  for (let left = size; left > 0;) {
    const buffer = new Uint8Array(Math.min(left, CHUNK));
    const read = await file.read(buffer);
    if (read === null) {
      throw new SvcError(
        "context_invalid",
        `Cannot send ${path}: it became shorter while it was read`,
        { help: "build again when nothing writes to the context" },
      );
    }
    left -= read;
    yield buffer.subarray(0, read);
  }
}

interface Extra {
  path: string;
  text: string;
}

async function* archive(
  root: string,
  walk: Parameters<typeof walkContext>[1],
  extras: readonly Extra[],
): AsyncGenerator<Uint8Array> {
  const writer = new TarWriter();
  for await (const { fields, source } of walkContext(root, walk)) {
    yield writer.header(fields);
    if (fields.type !== "file") continue;
    for await (const chunk of content(source, fields.path, fields.size ?? 0)) {
      const after = writer.data(chunk);
      yield chunk;
      yield after;
    }
  }
  yield* written(writer, extras);
  yield writer.end();
}

function* written(writer: TarWriter, extras: readonly Extra[]): Generator<Uint8Array> {
  for (const { path, text } of extras) {
    const bytes = encoder.encode(text);
    const fields: TarFields = { path, type: "file", mode: 0o644, size: bytes.length };
    yield writer.header(fields);
    const after = writer.data(bytes);
    yield bytes;
    yield after;
  }
}

/** The text of an ignore file; undefined where there is none. */
export async function readRules(path: string): Promise<string | undefined> {
  try {
    return await readTextFile(path, MAX_DOCKERFILE);
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return undefined;
    throw inputError(path, "ignore file", error);
  }
}

/** Contexts that the server fetches itself. */
const ELSEWHERE = /^(https?|ssh|git):\/\/|^git@|^github\.com\//;

async function contextRoot(directory: string): Promise<string> {
  try {
    const root = await Deno.realPath(directory);
    if ((await Deno.stat(root)).isDirectory) return root;
  } catch (cause) {
    throw inputError(directory, "build context", cause);
  }
  throw new SvcError(
    "argument_invalid",
    `Cannot read build context ${directory}: it is not a directory`,
    { help: "name the folder that the Dockerfile's COPY paths are relative to" },
  );
}

/** A Dockerfile that the server would refuse. */
const refused = (path: string, why: string) =>
  new SvcError(
    "dockerfile_invalid",
    `Cannot read Dockerfile ${path === "-" ? "on standard input" : path}: ${why}`,
    { help: "name a smaller file" },
  );

/** Reads the Dockerfile; what the server would refuse throws `dockerfile_invalid` here. A person may name a pipe. */
async function readDockerfile(path: string, io: Io): Promise<string> {
  const isPipe = path === "-" || await Deno.stat(path).then((info) => info.isFifo, () => false);
  if (!isPipe) {
    return await readTextFile(path, MAX_DOCKERFILE).catch((error) => {
      throw systemCode(error)
        ? inputError(path, "Dockerfile", error)
        : refused(path, error.message);
    });
  }
  const text = await readInput(path, "Dockerfile", io);
  if (encoder.encode(text).length <= MAX_DOCKERFILE) return text;
  throw refused(path, `it has more than ${formatBytes(MAX_DOCKERFILE)}`);
}

interface FoundDockerfile {
  /** Path inside the context; undefined where the file is outside or came from standard input. */
  inside?: string;
  text: string;
  name: string;
  /** Rules of `<Dockerfile>.dockerignore` beside a Dockerfile outside the context. */
  ownIgnore?: string;
}

async function findDockerfile(
  root: string,
  directory: string,
  file: string | undefined,
  io: Io,
): Promise<FoundDockerfile> {
  if (file === "-") {
    return { name: "Dockerfile (standard input)", text: await readDockerfile("-", io) };
  }
  const named = file ?? join(directory, "Dockerfile");
  const text = await readDockerfile(named, io).catch((error) => {
    throw file === undefined && error instanceof SvcError && error.code !== "dockerfile_invalid"
      ? new SvcError(error.code, error.message, { cause: error, help: "name it with -f" })
      : error;
  });
  // Only the folder's path is resolved: a Dockerfile that is a link is sent as a link, at its own path.
  const folder = await Deno.realPath(join(named, ".."));
  const path = relative(root, join(folder, basename(named)));
  const outside = path === ".." || path.startsWith(`..${sep}`) || isAbsolute(path);
  if (!outside && (await Deno.lstat(named)).isFile) {
    return { inside: path.replaceAll(sep, "/"), text, name: named };
  }
  return { text, name: named, ownIgnore: await readRules(`${named}.dockerignore`) };
}

/** Bytes of a tar header; shorter input is not an archive. */
const HEADER = 512;
/** True for text: neither compressed nor a tar archive, whose header has zero bytes. */
async function isText(head: Uint8Array): Promise<boolean> {
  // The decompressors are slow to load and rarely needed.
  const { detectCompression } = await import("../../oci/compression.ts");
  return detectCompression(head) === "none" && !head.includes(0) &&
    !/^BZh\d/.test(new TextDecoder("latin1").decode(head.subarray(0, 4)));
}

/** Reads standard input: an archive, or only a Dockerfile, whose context is then empty (as with docker). */
async function fromInput(file: string | undefined, io: Io): Promise<SentContext> {
  const name = file ?? "Dockerfile";
  const shown = (text: string) => text;
  const chunks = io.stdin.readable[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  let size = 0;
  let next = await chunks.next();
  for (; !next.done; next = await chunks.next()) {
    held.push(next.value);
    size += next.value.length;
    if (size >= HEADER) break;
  }
  const rest = { [Symbol.asyncIterator]: () => chunks };
  const all = async function* () {
    yield* held;
    yield* rest;
  };
  const head = (await new Blob(held as BlobPart[]).bytes()).subarray(0, HEADER);
  if (size === 0 || !await isText(head)) {
    return { body: ReadableStream.from(all()), dockerfile: name, source: { name }, shown };
  }
  if (file !== undefined) {
    throw new SvcError(
      "usage",
      `Cannot build: standard input is a Dockerfile, not an archive, and --file names another`,
      { help: "write svc build -f - FOLDER for a Dockerfile on standard input with a context" },
    );
  }
  for await (const chunk of rest) {
    if (size > MAX_DOCKERFILE) break;
    held.push(chunk);
    size += chunk.length;
  }
  if (size > MAX_DOCKERFILE) {
    throw new SvcError(
      "usage",
      "Cannot build: standard input is neither an archive nor a Dockerfile",
    );
  }
  const text = await new Blob(held as BlobPart[]).text();
  const writer = new TarWriter();
  const rules = `${name}\n.dockerignore\n`;
  const extras = [{ path: name, text }, { path: ".dockerignore", text: rules }];
  const parts = [...written(writer, extras), writer.end()];
  return {
    body: ReadableStream.from(parts),
    dockerfile: name,
    source: { name: "Dockerfile (standard input)", text },
    shown,
  };
}

/**
 * Opens the context. A Dockerfile outside the context is sent under a reserved name, with ignore rules that
 * hide it from every COPY. Throws `argument_invalid` or `dockerfile_invalid` before a byte is sent.
 */
export async function openContext(
  directory: string,
  file: string | undefined,
  io: Io,
): Promise<SentContext> {
  if (directory === "-") {
    const refusal = file === "-"
      ? "the Dockerfile and the context cannot both come from standard input"
      : io.stdin.isTerminal
      ? "standard input is a terminal, not a tar archive"
      : undefined;
    if (refusal) throw new SvcError("usage", `Cannot build: ${refusal}`);
    return await fromInput(file, io);
  }
  if (ELSEWHERE.test(directory)) {
    const name = file ?? "Dockerfile";
    const body = new Blob([]).stream();
    return { url: directory, body, dockerfile: name, source: { name }, shown: (text) => text };
  }
  const root = await contextRoot(directory);
  const dockerfile = await findDockerfile(root, directory, file, io);
  let rules = dockerfile.ownIgnore;
  for (const path of ignoreFiles(dockerfile.inside ?? "")) {
    if (path !== ".dockerignore" && dockerfile.inside === undefined) continue;
    rules ??= await readRules(join(root, path));
  }
  const ignore = parseIgnore(rules ?? "");
  let sent = dockerfile.inside;
  const extras: Extra[] = [];
  if (sent === undefined) {
    sent = `.dockerfile.${createHash("sha256").update(dockerfile.text).digest("hex").slice(0, 16)}`;
    extras.push({ path: sent, text: dockerfile.text });
    extras.push({
      path: `${sent}.dockerignore`,
      text: `${rules ?? ""}\n${sent}\n${sent}.dockerignore\n`,
    });
  }
  const parts = archive(root, {
    ignore,
    always: new Set([sent, ...ignoreFiles(sent)]),
    onSkip: (path, why) => io.stderr.write(`svc: warning: ${path} is ${why}; it is not sent\n`),
    signal: io.signal,
  }, extras);
  return {
    // Made on demand: most builds never read the archive.
    get body() {
      return ReadableStream.from(coalesce(parts));
    },
    dockerfile: sent,
    folder: { root, rules: rules ?? "", dockerfile: dockerfile.text },
    source: { name: dockerfile.name, text: dockerfile.text },
    shown: (text) => extras.length > 0 ? text.replaceAll(sent, dockerfile.name) : text,
  };
}

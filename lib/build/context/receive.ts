/** Receives the build context: unpacks a tar stream into a folder, or reads the listing of a remote context. */
import { SvcError } from "../../base/errors.ts";
import { ensureDir, removeTree } from "../../base/fs.ts";
import { decompressChunks } from "../../oci/compression.ts";
import { limited, unpackedTooLarge } from "../../oci/unpack_limit.ts";
import { type Ignore, parseIgnore } from "../parse/ignore.ts";
import type { KeptContexts } from "./kept_contexts.ts";
import type { RemoteContext } from "./remote.ts";
import { contextTooLarge } from "./too_large.ts";
import type { Tree } from "./tree.ts";
import { ContextUnpacker, type UnpackedContext } from "./unpack_context.ts";
import { unpackInWorker } from "./worker_client.ts";

/** Largest archive, in bytes, that is unpacked without a Worker: starting a Worker takes longer. */
const SMALL = 512 * 1024;

export interface Context extends AsyncDisposable {
  tree: Tree;
  /** Bytes received; of a remote context, those so far. */
  readonly received: number;
  ignore: Ignore;
  /** Text of the Dockerfile, before .dockerignore; undefined where it is missing. */
  dockerfile?: string;
}

export interface ReceiveOptions {
  /** Path of a folder that does not exist yet. */
  directory: string;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
  /** The kept remote contexts. */
  kept?: KeptContexts;
  /** Most bytes of an archive, unpacked. */
  maxBytes?: number;
  /** Limit for any archive, where {@linkcode maxBytes} is absent. */
  maxUnpackedBytes?: number;
  /**
   * `total`: bytes needed so far. It grows, since a remote context's contents are fetched only when steps
   * need them.
   */
  onProgress?: (bytes: number, total?: number) => void;
  signal?: AbortSignal;
}

/** Common compressions that a context may not have. */
const OTHERS = [["bzip2", /^BZh\d/], ["xz", /^\xfd7zXZ/]] as const;

function requireKnown(head: Uint8Array): void {
  const text = new TextDecoder("latin1").decode(head.subarray(0, 8));
  const other = OTHERS.find(([, magic]) => magic.test(text));
  if (!other) return;
  throw new SvcError(
    "context_invalid",
    `Cannot read the build context: it is compressed with ${other[0]}`,
    { help: "send a tar archive plain, or compressed with gzip or zstd" },
  );
}

async function unpack(
  stream: ReadableStream<Uint8Array>,
  root: string,
  { dockerfile, maxBytes, maxUnpackedBytes, signal }: ReceiveOptions,
): Promise<UnpackedContext> {
  const plain = decompressChunks(stream);
  const chunks = maxBytes === undefined
    ? limited(plain, maxUnpackedBytes, (limit) => unpackedTooLarge(limit, "the build context"))
    : limited(plain, maxBytes, contextTooLarge);
  const head: Uint8Array[] = [];
  let size = 0;
  let next = await chunks.next();
  if (!next.done) requireKnown(next.value);
  for (; !next.done && size <= SMALL; next = await chunks.next()) {
    signal?.throwIfAborted();
    head.push(next.value);
    size += next.value.length;
  }
  if (size === 0) {
    throw new SvcError("context_invalid", "Cannot read the build context: the body is empty");
  }
  if (!next.done) {
    const first = next.value;
    const all = async function* () {
      yield* head.splice(0);
      yield first;
      yield* chunks;
    };
    return await unpackInWorker(root, dockerfile, all(), signal);
  }
  const unpacker = new ContextUnpacker(root, dockerfile);
  try {
    for (const chunk of head) unpacker.push(chunk);
    return await unpacker.finish();
  } finally {
    unpacker.abandon();
  }
}

/**
 * Unpacks the archive, or reads the listing of a remote context. Throws `context_invalid` or
 * `archive_invalid`, and then leaves nothing behind.
 */
export async function receiveContext(
  source: ReadableStream<Uint8Array> | RemoteContext,
  options: ReceiveOptions,
): Promise<Context> {
  return source instanceof ReadableStream
    ? await unpackContext(source, options)
    : await openRemote(source, options);
}

async function openRemote(
  { tree: remote, dockerfile, ignore, received }: RemoteContext,
  { kept, onProgress, signal = new AbortController().signal }: ReceiveOptions,
): Promise<Context> {
  if (!kept) throw new SvcError("internal", "Cannot read the build context: nothing keeps it");
  const onFetched = () => onProgress?.(received(), received());
  const tree = await kept.use(remote, { signal, onFetched });
  return {
    tree,
    get received() {
      return received();
    },
    ignore: parseIgnore(ignore),
    ...(dockerfile !== undefined && { dockerfile }),
    [Symbol.asyncDispose]: () => tree[Symbol.asyncDispose](),
  };
}

async function unpackContext(
  stream: ReadableStream<Uint8Array>,
  options: ReceiveOptions,
): Promise<Context> {
  const { directory, signal } = options;
  const root = `${directory}/tree`;
  await ensureDir(root);
  let received = 0;
  const counted = stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        received += chunk.length;
        options.onProgress?.(received);
        controller.enqueue(chunk);
      },
    }),
    { signal },
  );
  try {
    const { digests, ignore, dockerfile } = await unpack(counted, root, options);
    return {
      tree: { root, digests, ownersKept: false },
      received,
      ignore: parseIgnore(ignore),
      ...(dockerfile !== undefined && { dockerfile }),
      [Symbol.asyncDispose]: () => removeTree(directory),
    };
  } catch (error) {
    await removeTree(directory);
    throw error;
  }
}

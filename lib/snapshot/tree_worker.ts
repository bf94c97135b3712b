/** The Worker behind tree_jobs.ts: synchronous work on files, one job at a time. */
import { createHash } from "node:crypto";
import { asSvcError } from "../base/errors.ts";
import { decompressChunks } from "../oci/compression.ts";
import { type ArchivePart, BlockCutter } from "../oci/tar_blocks.ts";
import { TarParser } from "../oci/tar_parser.ts";
import { limited, unpackedTooLarge } from "../oci/unpack_limit.ts";
import { close, open, read, seek } from "../sys/fd.ts";
import { O } from "../sys/files.ts";
import { applyError, LayerApplier } from "./apply_tree.ts";
import { type DiffSource, diffTree } from "./diff_tree.ts";
import { copyFolderTimes, copyTree, treeSize } from "./finish_tree.ts";
import type { AppliedLayer, LayerFile } from "./snapshotter.ts";
import type { FromWorker, ToWorker, TreeJob } from "./tree_jobs.ts";

const scope = self as unknown as {
  postMessage(message: FromWorker, transfer?: Transferable[]): void;
  onmessage: (event: MessageEvent<ToWorker>) => void;
};

/** Input of the running job, and how many blocks it may still send. */
let chunks: Uint8Array[] = [];
let ended = false;
let credits = 0;
let wake: (() => void) | undefined;

const change = () => new Promise<void>((resolve) => wake = resolve);

scope.onmessage = ({ data }) => {
  if (data.type === "job") {
    chunks = [];
    ended = false;
    credits = 0;
    perform(data.job);
    return;
  }
  if (data.type === "chunk") chunks.push(data.bytes);
  else if (data.type === "end") ended = true;
  else credits++;
  wake?.();
};

async function perform(job: TreeJob): Promise<void> {
  try {
    scope.postMessage({ type: "done", result: await result(job) });
  } catch (error) {
    const { code, message, help } = asSvcError(error);
    scope.postMessage({ type: "error", code, message, help });
  }
}

async function result(job: TreeJob): Promise<unknown> {
  switch (job.kind) {
    case "apply":
      return await apply(job);
    case "size":
      return treeSize(job.root);
    case "copy":
      return copyTree(job.from, job.to);
    case "times":
      return copyFolderTimes(job.from, job.to);
    case "diff":
      return await diff(job.source);
  }
}

async function diff(source: DiffSource): Promise<void> {
  const cutter = new BlockCutter();
  const send = async (parts: Iterable<ArchivePart>) => {
    for (const part of parts) {
      while (credits === 0) await change();
      credits--;
      const transfer = part.kind === "block" ? [part.bytes.buffer] : [];
      scope.postMessage({ type: "part", part }, transfer);
    }
  };
  for (const bytes of diffTree(source)) await send(cutter.push(bytes));
  await send(cutter.finish());
}

async function apply(job: Extract<TreeJob, { kind: "apply" }>): Promise<AppliedLayer> {
  const applier = new LayerApplier(job.target);
  let name: string | undefined;
  const parser = new TarParser({
    entry: (header) => {
      name = header.path;
      applier.entry(header);
    },
    data: (chunk) => applier.data(chunk),
    hole: (length) => applier.hole(length),
    end: () => {
      applier.end();
      name = undefined;
    },
  });
  const hash = createHash("sha256");
  let size = 0;
  try {
    const packed = job.file ? fileChunks(job.file) : messageChunks();
    for await (const chunk of limited(decompressChunks(packed), job.maxBytes, unpackedTooLarge)) {
      hash.update(chunk);
      size += chunk.length;
      parser.push(chunk);
    }
    parser.finish();
    return { ...applier.finish(), diffID: `sha256:${hash.digest("hex")}`, size };
  } catch (error) {
    throw applyError(error, name);
  } finally {
    applier.close();
  }
}

async function* messageChunks(): AsyncGenerator<Uint8Array> {
  while (true) {
    const bytes = chunks.shift();
    if (bytes) {
      scope.postMessage({ type: "taken", bytes: bytes.length });
      yield bytes;
    } else if (ended) return;
    else await change();
  }
}

async function* fileChunks(file: LayerFile): AsyncGenerator<Uint8Array> {
  // Our own: a spooled layer.
  const fd = open(file.path, O.RDONLY);
  try {
    seek(fd, file.offset, file.path);
    for (let left = file.size; left > 0;) {
      const buffer = new Uint8Array(Math.min(left, 256 * 1024));
      const got = read(fd, buffer, file.path);
      if (got === 0) return;
      left -= got;
      yield buffer.subarray(0, got);
    }
  } finally {
    close(fd);
  }
}

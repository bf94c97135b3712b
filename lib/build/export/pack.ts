/**
 * Packs a layer: the archive comes in blocks, the blob is written to a file. Workers pack several blocks at
 * once; a small block is packed in this thread, because starting a Worker takes longer. The same archive
 * always gives the same bytes.
 */
import type { ArchivePart } from "../../oci/tar_blocks.ts";
import type { Digest } from "../../oci/types.ts";
import { packElsewhere } from "./block_pool.ts";
import type { KnownBlocks } from "./known_blocks.ts";
import { PackedFile } from "./packed_file.ts";
import { packBlock, type PackedBlock, type Packing, packingKey } from "./packer_wire.ts";

export interface PackedLayer {
  /** Digest of the unpacked archive. */
  diffID: Digest;
  /** Digest and bytes of the packed file. */
  digest: Digest;
  size: number;
}

/** Bytes that are packed in this thread; that takes a few milliseconds. */
const SMALL = 128 * 1024;

/** Most blocks of a layer that are being packed. */
const AHEAD = 6;

interface Pending {
  name: string;
  packed: Promise<PackedBlock>;
  /** Bytes before packing. */
  size: number;
  isNew: boolean;
}

/** Writes the packed archive to the new file `path`, and records in `known` where its blocks are. */
export async function packLayer(
  parts: AsyncIterable<ArchivePart>,
  path: string,
  packing: Packing,
  { known, signal }: { known: KnownBlocks; signal?: AbortSignal },
): Promise<PackedLayer> {
  signal?.throwIfAborted();
  await using file = await PackedFile.create(path, packing);
  const key = packingKey(packing);
  const pending: Pending[] = [];
  const next = async () => {
    const { name, packed, size, isNew } = pending[0];
    const block = await packed;
    signal?.throwIfAborted();
    const offset = await file.block(block, size);
    if (isNew) known.placed(name, { path, offset, size: block.bytes.length, crc: block.crc });
    pending.shift();
  };
  for await (const part of parts) {
    signal?.throwIfAborted();
    if (part.kind === "end") {
      while (pending.length > 0) await next();
      return { diffID: part.diffID, ...await file.finish() };
    }
    const { bytes, digest } = part;
    const name = `${key} ${digest}`;
    const size = bytes.length;
    const there = known.get(name);
    const packed = there ?? packSomewhere(bytes, packing, signal);
    // A block may fail before it is awaited.
    packed.catch(() => {});
    if (!there) known.add(name, packed);
    pending.push({ name, packed, size, isNew: !there });
    if (pending.length >= AHEAD) await next();
  }
  throw new Error("the archive has no end");
}

async function packSomewhere(
  bytes: Uint8Array<ArrayBuffer>,
  packing: Packing,
  signal: AbortSignal | undefined,
): Promise<PackedBlock> {
  return bytes.length <= SMALL || packing.compression === "uncompressed"
    ? packBlock(bytes, packing)
    : await packElsewhere(bytes, packing, signal);
}

/**
 * How an archive is packed: each of its blocks (lib/oci/tar_blocks.ts) by itself, in pack.ts or in a Worker;
 * and the messages between them.
 */
import { constants, crc32, deflateRawSync, zstdCompressSync } from "node:zlib";

/** How a layer is compressed. The same packing of the same archive gives the same bytes. */
export interface Packing {
  compression: "gzip" | "zstd" | "uncompressed";
  /** Meaningless for `uncompressed`. */
  level: number;
}

/**
 * gzip's level 2 makes a layer of programs and documents 7 % larger than level 6, in a third of the time. 3
 * is zstd's own default.
 */
export const DEFAULT_LEVELS: Record<Packing["compression"], number> = {
  gzip: 2,
  zstd: 3,
  uncompressed: 0,
};

/** A packing's name: "gzip-blocks-4". To be changed where the same archive would give other bytes. */
export const packingKey = ({ compression, level }: Packing): string =>
  compression === "uncompressed" ? compression : `${compression}-blocks-${level}`;

export interface PackedBlock {
  bytes: Uint8Array<ArrayBuffer>;
  /** Checksum of the unpacked block, where the packing needs it. */
  crc: number;
}

/**
 * Packs one block: a piece of a gzip stream that ends at a byte boundary and needs no earlier bytes, or a
 * zstd frame.
 */
export function packBlock(
  bytes: Uint8Array<ArrayBuffer>,
  { compression, level }: Packing,
): PackedBlock {
  // More than the packed block can have, so that the output is one buffer.
  const chunkSize = bytes.length + 1024;
  switch (compression) {
    case "gzip": {
      const finishFlush = constants.Z_SYNC_FLUSH;
      const packed = deflateRawSync(bytes, { level, finishFlush, chunkSize });
      return { bytes: owned(packed), crc: crc32(bytes) };
    }
    case "zstd": {
      const params = { [constants.ZSTD_c_compressionLevel]: level };
      return { bytes: owned(zstdCompressSync(bytes, { params, chunkSize })), crc: 0 };
    }
    case "uncompressed":
      return { bytes, crc: 0 };
  }
}

/** A copy in a buffer of its own, which can be transferred; frees the packer's buffer. */
function owned(packed: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(packed);
  // A smaller result lies in node's shared pool.
  const { buffer } = packed;
  if (buffer instanceof ArrayBuffer && buffer.byteLength > SHARED) buffer.transfer(0);
  return bytes;
}

/** Size of node's pool for small buffers, in bytes. */
const SHARED = 64 * 1024;

/** One block. */
export interface ToPacker {
  job: number;
  bytes: Uint8Array<ArrayBuffer>;
  packing: Packing;
}

export type FromPacker =
  | { job: number; packed: PackedBlock }
  | { job: number; error: string };

/**
 * Blocks that this export has already packed, such as a copied file, or a file whose mode a later layer
 * changes.
 */
import type { PackedBlock } from "./packer_wire.ts";

/** Where a packed block is in a file, and the checksum of its unpacked bytes. */
export interface BlockPlace {
  path: string;
  offset: number;
  /** Bytes. */
  size: number;
  crc: number;
}

export class KnownBlocks {
  #waiting = new Map<string, Promise<PackedBlock>>();
  #places = new Map<string, BlockPlace>();

  /** The packed block of that name (packing and digest); undefined where no layer has it. */
  get(name: string): Promise<PackedBlock> | undefined {
    const place = this.#places.get(name);
    return place ? readPlace(place) : this.#waiting.get(name);
  }

  /** Registers a block that is being packed. It stays in memory until `placed` says where it was written. */
  add(name: string, packed: Promise<PackedBlock>): void {
    this.#waiting.set(name, packed);
  }

  placed(name: string, place: BlockPlace): void {
    this.#waiting.delete(name);
    this.#places.set(name, place);
  }
}

async function readPlace({ path, offset, size, crc }: BlockPlace): Promise<PackedBlock> {
  // Our own: a packed layer.
  using file = await Deno.open(path);
  await file.seek(offset, Deno.SeekMode.Start);
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size;) {
    const got = await file.read(bytes.subarray(at));
    if (got === null) throw new Error(`${path} ends ${size - at} bytes early`);
    at += got;
  }
  return { bytes, crc };
}

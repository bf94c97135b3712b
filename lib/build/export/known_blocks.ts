/** Blocks that this export packed already: a file copied, or in a later layer only its mode changed. */
import type { PackedBlock } from "./packer_wire.ts";

/** Where a packed block stands, and the checksum of what it was. */
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

  /** The packed block of that name; undefined where nobody has packed it. */
  get(name: string): Promise<PackedBlock> | undefined {
    const place = this.#places.get(name);
    return place ? readPlace(place) : this.#waiting.get(name);
  }

  /** Being packed: in memory, until the one who packs it says where it stands. */
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

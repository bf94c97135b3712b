/** The file of a packed layer while its blocks come: frames them, hashes them, starts their writeback. */
import { createHash } from "node:crypto";
import { zstdCompressSync } from "node:zlib";
import { joinCrc32 } from "../../oci/crc32.ts";
import type { Digest } from "../../oci/types.ts";
import { close, open, startWriteback } from "../../sys/fd.ts";
import { O } from "../../sys/files.ts";
import type { PackedBlock, Packing } from "./packer_wire.ts";

/** The header of a gzip file without time and name; system "unknown", so that all machines write the same. */
const GZIP_HEAD = new Uint8Array([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
/** An empty last block that ends the deflate stream. */
const DEFLATE_END = [3, 0];

/** Bytes that are sent to the disk at once, so that a later sync has little to do. */
const WRITEBACK = 8 << 20;

export class PackedFile implements AsyncDisposable {
  readonly path: string;
  #compression: Packing["compression"];
  #file: Deno.FsFile;
  #descriptor: number;
  #hash = createHash("sha256");
  #size = 0;
  #sent = 0;
  #sending: Promise<void> = Promise.resolve();
  #crc = 0;
  #plainSize = 0;

  private constructor(path: string, file: Deno.FsFile, { compression }: Packing) {
    this.path = path;
    this.#file = file;
    this.#descriptor = open(path, O.WRONLY);
    this.#compression = compression;
  }

  static async create(path: string, packing: Packing): Promise<PackedFile> {
    const file = await Deno.open(path, { write: true, createNew: true });
    try {
      const packed = new PackedFile(path, file, packing);
      if (packing.compression === "gzip") await packed.#write(GZIP_HEAD);
      return packed;
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Appends a block and returns its offset. `plainSize`: the block's bytes before packing. */
  async block({ bytes, crc }: PackedBlock, plainSize: number): Promise<number> {
    const offset = this.#size;
    if (this.#compression === "gzip") this.#crc = joinCrc32(this.#crc, crc, plainSize);
    this.#plainSize += plainSize;
    await this.#write(bytes);
    return offset;
  }

  async finish(): Promise<{ digest: Digest; size: number }> {
    if (this.#compression === "gzip") {
      const tail = new DataView(new ArrayBuffer(10));
      for (const [at, byte] of DEFLATE_END.entries()) tail.setUint8(at, byte);
      tail.setUint32(2, this.#crc, true);
      tail.setUint32(6, this.#plainSize % 2 ** 32, true);
      await this.#write(new Uint8Array(tail.buffer));
    } else if (this.#compression === "zstd" && this.#size === 0) {
      await this.#write(zstdCompressSync(new Uint8Array(0)));
    }
    return { digest: `sha256:${this.#hash.digest("hex")}`, size: this.#size };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#file.close();
    await this.#sending;
    close(this.#descriptor);
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    for (let at = 0; at < bytes.length;) at += await this.#file.write(bytes.subarray(at));
    this.#size += bytes.length;
    const ready = this.#size - this.#sent;
    if (ready < WRITEBACK) return;
    const from = this.#sent;
    this.#sent = this.#size;
    // Not awaited: a busy disk holds up only later writebacks.
    this.#sending = this.#sending.then(() => startWriteback(this.#descriptor, from, ready));
  }
}

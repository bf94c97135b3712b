/**
 * A file without a name that one writer appends to while readers follow, each at its own pace: the bytes
 * of a blob that is on its way in.
 */
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { join } from "node:path";

export class Spool {
  #users = 1;
  #length = 0;

  private constructor(private readonly file: FileHandle) {}

  /** Makes the file in `folder`, which is created where it is missing. The creator is its first holder. */
  static async create(folder: string): Promise<Spool> {
    await mkdir(folder, { recursive: true });
    const path = join(folder, crypto.randomUUID());
    const file = await open(path, "wx+", 0o600);
    try {
      // The file has no name from here on: nothing is left behind, however the process ends.
      await unlink(path);
    } catch (error) {
      await file.close();
      throw error;
    }
    return new Spool(file);
  }

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** Call it once at a time. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const position = this.#length + at;
      at += (await this.file.write(bytes, at, bytes.length - at, position)).bytesWritten;
    }
    this.#length += bytes.length;
  }

  /** Fills `buffer` from `position`; the bytes must lie within `length`. */
  async read(buffer: Uint8Array, position: number): Promise<void> {
    for (let at = 0; at < buffer.length;) {
      const { bytesRead } = await this.file.read(buffer, at, buffer.length - at, position + at);
      if (bytesRead === 0) throw new Error("a spool is shorter than what was written to it");
      at += bytesRead;
    }
  }

  /** Adds a holder; false where the last holder has already released the file. */
  hold(): boolean {
    if (this.#users === 0) return false;
    this.#users++;
    return true;
  }

  /** True while anyone but its creator holds the file. */
  get followed(): boolean {
    return this.#users > 1;
  }

  /** The last holder's release frees the space. */
  async release(): Promise<void> {
    if (--this.#users === 0) await this.file.close();
  }
}

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

  /** In `folder`, which is made where it is missing. The creator holds it first. */
  static async create(folder: string): Promise<Spool> {
    await mkdir(folder, { recursive: true });
    const path = join(folder, crypto.randomUUID());
    const file = await open(path, "wx+", 0o600);
    try {
      // Nothing is left behind, however the process ends.
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

  /** One call at a time. */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const position = this.#length + at;
      at += (await this.file.write(bytes, at, bytes.length - at, position)).bytesWritten;
    }
    this.#length += bytes.length;
  }

  /** Fills `buffer` from `position`; only from what `length` covers. */
  async read(buffer: Uint8Array, position: number): Promise<void> {
    for (let at = 0; at < buffer.length;) {
      const { bytesRead } = await this.file.read(buffer, at, buffer.length - at, position + at);
      if (bytesRead === 0) throw new Error("a spool is shorter than what was written to it");
      at += bytesRead;
    }
  }

  /** One more holder; false where the last one has gone already. */
  hold(): boolean {
    if (this.#users === 0) return false;
    this.#users++;
    return true;
  }

  /** True while others than its creator hold it. */
  get followed(): boolean {
    return this.#users > 1;
  }

  /** The last holder's call frees the space. */
  async release(): Promise<void> {
    if (--this.#users === 0) await this.file.close();
  }
}

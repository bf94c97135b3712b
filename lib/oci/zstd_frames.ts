/**
 * Finds the frames of a zstd stream (RFC 8878 section 3). node:zlib reads only one frame and accepts a
 * truncated one. Layers may have many frames (zstd:chunked has one per file), and a truncated frame is
 * damage.
 */
import { archiveError } from "./tar.ts";

export type ZstdPart =
  | { kind: "start"; /** Decompressed bytes, where the header says so. */ contentSize?: number }
  | { kind: "bytes"; bytes: Uint8Array }
  | { kind: "end" };

type State =
  | "magic"
  | "skipSize"
  | "skip"
  | "descriptor"
  | "header"
  | "block"
  | "body"
  | "checksum";

export class ZstdFrames {
  #state: State = "magic";
  #head: number[] = [];
  #descriptor = 0;
  #last = false;
  /** Bytes of the current field or body still to come. */
  #left = 4;

  /** The parts of `chunk`, as views of it; skippable frames are left out. */
  push(chunk: Uint8Array): ZstdPart[] {
    const parts: ZstdPart[] = [];
    for (let at = 0; at < chunk.length;) {
      const take = Math.min(this.#left, chunk.length - at);
      const bytes = chunk.subarray(at, at + take);
      at += take;
      this.#left -= take;
      const bulk = this.#state === "body" || this.#state === "skip";
      if (!bulk) this.#head.push(...bytes);
      if (this.#inFrame()) parts.push({ kind: "bytes", bytes });
      while (this.#left === 0) this.#advance(parts);
    }
    return parts;
  }

  /** Throws where the stream ends inside a frame. */
  finish(): void {
    if (this.#state !== "magic" || this.#head.length > 0) {
      throw archiveError("its zstd compression is cut short");
    }
  }

  /** Fields after the frame's header are passed on as they come. */
  #inFrame(): boolean {
    return this.#state === "block" || this.#state === "body" || this.#state === "checksum";
  }

  #to(state: State, left: number): void {
    this.#state = state;
    this.#left = left;
  }

  #number(from = 0, length = this.#head.length - from): number {
    let value = 0;
    for (let i = from + length - 1; i >= from; i--) value = value * 256 + this.#head[i];
    return value;
  }

  #advance(parts: ZstdPart[]): void {
    switch (this.#state) {
      case "magic": {
        const magic = this.#number();
        if (magic === 0xfd2fb528) return this.#to("descriptor", 1);
        this.#head = [];
        if (magic >= 0x184d2a50 && magic <= 0x184d2a5f) return this.#to("skipSize", 4);
        throw archiveError("its zstd compression is damaged");
      }
      case "skipSize": {
        const size = this.#number();
        this.#head = [];
        return this.#to("skip", size);
      }
      case "skip":
        return this.#to("magic", 4);
      case "descriptor": {
        this.#descriptor = this.#head[4];
        const single = (this.#descriptor & 0x20) !== 0;
        const dictionary = [0, 1, 2, 4][this.#descriptor & 3];
        return this.#to("header", (single ? 0 : 1) + dictionary + this.#contentSizeLength());
      }
      case "header": {
        parts.push({ kind: "start", contentSize: this.#contentSize() });
        parts.push({ kind: "bytes", bytes: Uint8Array.from(this.#head) });
        this.#head = [];
        return this.#to("block", 3);
      }
      case "block": {
        const header = this.#number();
        this.#head = [];
        const type = header >> 1 & 3;
        if (type === 3) throw archiveError("its zstd compression is damaged");
        this.#last = (header & 1) === 1;
        return this.#to("body", type === 1 ? 1 : header >> 3);
      }
      case "body":
        if (!this.#last) return this.#to("block", 3);
        if (this.#descriptor & 4) return this.#to("checksum", 4);
        break;
      case "checksum":
    }
    this.#head = [];
    parts.push({ kind: "end" });
    this.#to("magic", 4);
  }

  #contentSizeLength(): number {
    const flag = this.#descriptor >> 6;
    return flag === 0 ? (this.#descriptor & 0x20 ? 1 : 0) : 1 << flag;
  }

  #contentSize(): number | undefined {
    const length = this.#contentSizeLength();
    if (length === 0) return undefined;
    const value = this.#number(this.#head.length - length, length);
    return length === 2 ? value + 256 : value;
  }
}

/**
 * What a caller sends, as node's http2 server is given it: without GOAWAY (RFC 9113 section 6.8). Deno 2.9.6 can be
 * ended by one that comes while calls are open, with a segmentation fault. Whoever sends it closes the connection
 * soon, and that says the same.
 */
import { Buffer } from "node:buffer";
import { Duplex, Transform, type TransformCallback } from "node:stream";

/** Bytes before a caller's first frame, and of a frame's head. */
const PREFACE = 24;
const HEAD = 9;
const GOAWAY = 7;

class Frames extends Transform {
  /** Bytes of the frame, or of the preface, that are still to come. */
  #left = PREFACE;
  #drops = false;
  #head = Buffer.alloc(0);

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    for (let at = 0; at < chunk.length;) {
      const part = chunk.subarray(at, at + (this.#left || HEAD - this.#head.length));
      at += part.length;
      if (this.#left > 0) {
        this.#left -= part.length;
        if (!this.#drops) this.push(part);
        continue;
      }
      this.#head = Buffer.concat([this.#head, part]);
      if (this.#head.length < HEAD) break;
      this.#left = this.#head.readUIntBE(0, 3);
      this.#drops = this.#head[3] === GOAWAY;
      if (!this.#drops) this.push(this.#head);
      this.#head = Buffer.alloc(0);
    }
    done();
  }
}

/** Closing either closes both. */
export function withoutGoaway(connection: Duplex): Duplex {
  const frames = new Frames();
  connection.pipe(frames);
  // Node's streams are taken as web's are; not every version of the types has it.
  const given = Duplex.from({ readable: frames, writable: connection } as never);
  // What came before the end is read first.
  connection.once("close", () => frames.end());
  connection.on("error", () => frames.end());
  given.once("close", () => connection.destroy());
  given.on("error", () => {/* the close tells */});
  return given;
}

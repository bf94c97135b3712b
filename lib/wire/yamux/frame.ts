/** Frames of yamux, specification version 0: a header of 12 bytes, big-endian, then the data. */
import { SvcError } from "../../base/errors.ts";

export const HEADER_SIZE = 12;

export const TYPE = { DATA: 0, WINDOW: 1, PING: 2, GO_AWAY: 3 } as const;
export const FLAG = { SYN: 1, ACK: 2, FIN: 4, RST: 8 } as const;
const ALL_FLAGS = 15;

/** Codes of go-away. */
export const GO_AWAY = { NORMAL: 0, PROTOCOL: 1, INTERNAL: 2 } as const;

/** Bytes that each side may send on a new stream before it gets a window update. */
export const INITIAL_WINDOW = 256 * 1024;

export interface Frame {
  type: number;
  flags: number;
  stream: number;
  /** Bytes of data that follow, bytes added to a window, a ping's value or a go-away's code. */
  length: number;
}

/** The header and, behind it, `data`. */
export function encodeFrame(frame: Frame, data?: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_SIZE + (data?.length ?? 0));
  const view = new DataView(bytes.buffer);
  view.setUint8(1, frame.type);
  view.setUint16(2, frame.flags);
  view.setUint32(4, frame.stream);
  view.setUint32(8, frame.length);
  if (data) bytes.set(data, HEADER_SIZE);
  return bytes;
}

/** The error for a side that breaks the protocol: the session cannot continue. */
export function violation(what: string): SvcError {
  return new SvcError("upstream_failed", `Cannot read the session: ${what}`, {
    help: "check that both sides are svc, and that nothing between them changes bytes",
  });
}

/** Throws `upstream_failed` for an invalid frame. */
function decodeHeader(bytes: Uint8Array): Frame {
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_SIZE);
  const version = view.getUint8(0);
  if (version !== 0) throw violation(`frame version ${version} is unknown`);
  const frame = {
    type: view.getUint8(1),
    flags: view.getUint16(2),
    stream: view.getUint32(4),
    length: view.getUint32(8),
  };
  if (frame.type > TYPE.GO_AWAY) throw violation(`frame type ${frame.type} is unknown`);
  if (frame.flags & ~ALL_FLAGS) throw violation(`frame flags ${frame.flags} are unknown`);
  const ofStream = frame.type === TYPE.DATA || frame.type === TYPE.WINDOW;
  if (ofStream !== (frame.stream !== 0)) throw violation("a frame has the wrong stream");
  return frame;
}

export interface FrameHandler {
  /** Called with each frame; throws for an invalid one. {@linkcode data} follows for a data frame. */
  frame(frame: Frame): void;
  /**
   * Called with the next part of the frame's data. `whole` is the size of the buffer that the part belongs to:
   * a small part must not keep a large buffer in memory.
   */
  data(part: Uint8Array, whole: number): void;
}

/** Splits a byte stream into frames, however it arrives. Buffers at most one header. */
export class FrameDecoder {
  #handler: FrameHandler;
  #header = new Uint8Array(HEADER_SIZE);
  #have = 0;
  #left = 0;

  constructor(handler: FrameHandler) {
    this.#handler = handler;
  }

  push(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#left > 0) {
        const part = chunk.subarray(at, at + this.#left);
        this.#left -= part.length;
        at += part.length;
        this.#handler.data(part, chunk.buffer.byteLength);
        continue;
      }
      const part = chunk.subarray(at, at + HEADER_SIZE - this.#have);
      this.#header.set(part, this.#have);
      this.#have += part.length;
      at += part.length;
      if (this.#have < HEADER_SIZE) return;
      this.#have = 0;
      const frame = decodeHeader(this.#header);
      if (frame.type === TYPE.DATA) this.#left = frame.length;
      this.#handler.frame(frame);
    }
  }
}

/**
 * The framing of output without a terminal: 8 bytes of head, of which the first is the stream and the last four
 * the number of bytes that follow (Docker Engine API, "Stream format").
 */
import { SvcError } from "../base/errors.ts";

export type OutputStream = "stdout" | "stderr";

export interface OutputFrame {
  stream: OutputStream;
  /** A part of a frame: frames may be large. Never empty. */
  bytes: Uint8Array;
  /** True for the last part of a frame. */
  last: boolean;
}

const HEAD = 8;
const STREAMS: Record<number, OutputStream> = { 0: "stdout", 1: "stdout", 2: "stderr" };
/** The daemon tells its own failure in a frame of this stream. */
const SYSTEM_ERROR = 3;

/**
 * Splits output into frames: those of what came at once together, for output may be a thousand short lines. Throws
 * `upstream_failed` where it is no such output, or ends in a frame.
 */
export async function* readFrames(
  output: AsyncIterable<Uint8Array>,
): AsyncGenerator<OutputFrame[]> {
  const head = new Uint8Array(HEAD);
  let filled = 0;
  /** Bytes of the frame that are still to come. */
  let left = 0;
  let failure = "";
  for await (const chunk of output) {
    const frames: OutputFrame[] = [];
    for (let at = 0; at < chunk.length;) {
      if (left === 0) {
        const some = chunk.subarray(at, at + HEAD - filled);
        head.set(some, filled);
        filled += some.length;
        at += some.length;
        if (filled < HEAD) break;
        left = new DataView(head.buffer).getUint32(4);
        const known = STREAMS[head[0]] !== undefined || head[0] === SYSTEM_ERROR;
        if (!known || head[1] + head[2] + head[3] > 0) throw unframed("the output has no frames");
        if (left === 0) filled = 0;
        continue;
      }
      const bytes = chunk.subarray(at, at + left);
      at += bytes.length;
      left -= bytes.length;
      if (left === 0) filled = 0;
      if (head[0] === SYSTEM_ERROR) failure += new TextDecoder().decode(bytes);
      else frames.push({ stream: STREAMS[head[0]], bytes, last: left === 0 });
    }
    if (frames.length > 0) yield frames;
  }
  if (failure !== "") throw unframed(failure.trim());
  if (filled > 0) throw unframed("it is cut off");
}

const unframed = (why: string) =>
  new SvcError("upstream_failed", `Cannot read the daemon's output: ${why}`);

export interface Outputs {
  stdout: ReadableStream<Uint8Array>;
  stderr: ReadableStream<Uint8Array>;
}

/**
 * The two streams of framed output. Nothing is read ahead of the slower reader, and a stream that is cancelled
 * holds up the other no more. `closed` is called when both are cancelled.
 */
export function splitOutput(output: AsyncIterable<Uint8Array>, closed: () => void): Outputs {
  const names: OutputStream[] = ["stdout", "stderr"];
  const sides = new Map(names.map((name) => [name, new TransformStream<Uint8Array, Uint8Array>()]));
  const writers = new Map(names.map((name) => [name, sides.get(name)!.writable.getWriter()]));
  const left = new Set(names);
  const relay = async () => {
    for await (const frames of readFrames(output)) {
      for (const { stream, bytes } of frames) {
        if (!left.has(stream)) continue;
        await writers.get(stream)!.write(bytes).catch(() => {
          left.delete(stream);
          if (left.size === 0) closed();
        });
      }
    }
  };
  relay().then(
    () => writers.forEach((writer) => writer.close().catch(() => {/* cancelled */})),
    (error) => writers.forEach((writer) => writer.abort(error).catch(() => {/* cancelled */})),
  );
  return { stdout: sides.get("stdout")!.readable, stderr: sides.get("stderr")!.readable };
}

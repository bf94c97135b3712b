/** Converts log frames back to the bytes that were printed. */
import type { LogFrame } from "./deployment.ts";

const encoder = new TextEncoder();

/** The bytes that were printed: the line and its newline. */
export function printedBytes({ line, base64, partial }: LogFrame): Uint8Array<ArrayBuffer> {
  const newline = partial ? "" : "\n";
  if (base64 === undefined) return encoder.encode(line + newline);
  return joined(Uint8Array.fromBase64(base64), encoder.encode(newline));
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** Puts a prefix before each line, but not before a frame that continues a line. */
export class LinePrefixer {
  #open = new Set<string>();

  print(frame: LogFrame, prefix: string): Uint8Array<ArrayBuffer> {
    const of = `${frame.instance} ${frame.stream}`;
    const begins = !this.#open.has(of);
    if (frame.partial) this.#open.add(of);
    else this.#open.delete(of);
    const bytes = printedBytes(frame);
    return begins && prefix !== "" ? joined(encoder.encode(prefix), bytes) : bytes;
  }
}

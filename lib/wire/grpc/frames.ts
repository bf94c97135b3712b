/** Messages of gRPC on a stream of HTTP/2: a byte for compression, four for the length, the message. */
import { Buffer } from "node:buffer";
import { SvcError } from "../../base/errors.ts";

const HEAD = 5;

/** What goes before a message of so many bytes. */
export function frameHead(length: number): Buffer {
  const head = Buffer.alloc(HEAD);
  head.writeUInt32BE(length, 1);
  return head;
}

/**
 * Splits a stream of bytes into messages; the chunks may have any size. Throws `upstream_failed` for a message
 * of more than `most` bytes, and for one that is compressed, which nobody here asks for.
 */
export async function* messagesOf(
  chunks: AsyncIterable<Buffer>,
  most = Infinity,
): AsyncGenerator<Buffer, void, void> {
  let pieces: Buffer[] = [];
  let have = 0, need = HEAD;
  for await (const chunk of chunks) {
    pieces.push(chunk);
    have += chunk.length;
    while (have >= need) {
      const bytes = pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
      pieces = [bytes];
      const size = bytes.readUInt32BE(1);
      if (bytes[0] !== 0 || size > most) {
        const why = bytes[0] !== 0 ? "it is compressed" : `it has ${size} bytes`;
        throw new SvcError("upstream_failed", `Cannot read a gRPC message: ${why}`);
      }
      const end = HEAD + size;
      if (have < end) {
        need = end;
        break;
      }
      yield bytes.subarray(HEAD, end);
      pieces = [bytes.subarray(end)];
      have -= end;
      need = HEAD;
    }
  }
}

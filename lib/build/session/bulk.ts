/** Client of the service `files` (lib/api/build_session.ts), on the server. */
import { concat } from "../../base/collect.ts";
import type { WantedFile } from "../../api/build_session.ts";
import { BULK, FILE_FAILED } from "../../api/build_session.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { writeLine } from "../../wire/lines.ts";

export interface BulkOptions {
  /** Called with the number of content bytes as they come. */
  onBytes: (bytes: number) => void;
  /** Makes the error for a malformed answer, or for a file that the caller could not read. */
  failed: (what: string) => Error;
}

/** Requests the files batch by batch. The stream's flow control holds the requests back. */
async function ask(stream: Duplex, files: readonly { path: string; size: number }[]) {
  let batch: WantedFile[] = [];
  let bytes = 0;
  for (const { path, size } of files) {
    if (batch.length === BULK.files || bytes + size > BULK.bytes) {
      await writeLine(stream, batch);
      batch = [];
      bytes = 0;
    }
    batch.push([path, size]);
    bytes += size;
  }
  if (batch.length > 0) await writeLine(stream, batch);
  await stream.closeWrite();
}

/** Cuts a stream into pieces of the wanted sizes; copies bytes only where a piece spans chunks. */
class Pieces {
  #parts: Uint8Array[] = [];
  #size = 0;

  push(chunk: Uint8Array): void {
    this.#parts.push(chunk);
    this.#size += chunk.length;
  }

  get size(): number {
    return this.#size;
  }

  /** All collected bytes in one array. */
  whole(): Uint8Array {
    if (this.#parts.length !== 1) {
      this.#parts = [concat(this.#parts)];
    }
    return this.#parts[0];
  }

  drop(bytes: number): void {
    const rest = this.whole().subarray(bytes);
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#size = rest.length;
  }
}

/** Contents in the order of `files`, each at most one byte longer than wanted. Ends the stream. */
export async function* readBulk(
  stream: Duplex,
  files: readonly { path: string; size: number }[],
  { onBytes, failed }: BulkOptions,
): AsyncGenerator<Uint8Array[]> {
  // Where the requests fail, the reset makes the reads below fail too.
  ask(stream, files).catch(() => stream.reset());
  const pieces = new Pieces();
  /** Bytes that must have come before the next header or content can be taken. */
  let needed = BULK.header;
  let index = 0;
  while (index < files.length) {
    const chunk = await stream.read();
    if (!chunk) throw failed("the files end too early");
    pieces.push(chunk);
    if (pieces.size < needed) continue;
    const contents: Uint8Array[] = [];
    const bytes = pieces.whole();
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let at = 0;
    needed = BULK.header;
    while (index < files.length && bytes.length - at >= BULK.header) {
      const { path, size: wanted } = files[index];
      const size = view.getUint32(at + 4);
      if (view.getUint32(at) !== index) throw failed("the files come in no order");
      const length = size === FILE_FAILED ? 4 : size;
      if (length > wanted + 1 && size !== FILE_FAILED) {
        throw failed(`${path} is longer than what was asked for`);
      }
      if (bytes.length - at - BULK.header < length) {
        needed = BULK.header + length;
        break;
      }
      at += BULK.header;
      if (size === FILE_FAILED) {
        throw failed(`${path} could not be read (error ${view.getUint32(at)})`);
      }
      onBytes(length);
      contents.push(bytes.subarray(at, at + length));
      at += length;
      index++;
    }
    pieces.drop(at);
    if (contents.length > 0) yield contents;
  }
  if (pieces.size > 0) throw failed("more comes than was asked for");
}

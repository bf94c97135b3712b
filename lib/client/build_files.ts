/** The service `files` (lib/api/build_session.ts) as the client answers it: many small files on one stream. */
import { BULK, FILE_FAILED, type WantedFile } from "../api/build_session.ts";
import { SvcError } from "../base/errors.ts";
import type { Duplex } from "../wire/duplex.ts";
import type { FileError } from "../wire/files/stat.ts";
import type { LineReader } from "../wire/lines.ts";
import type { ConfinedFolder } from "../wire/files/folder.ts";

/** Answers are gathered up to this size. */
const GATHERED = 64 * 1024;

function checked(batch: unknown): WantedFile[] {
  const good = Array.isArray(batch) && batch.length <= BULK.files &&
    batch.every((file) =>
      Array.isArray(file) && typeof file[0] === "string" && Number.isSafeInteger(file[1]) &&
      file[1] >= 0
    ) && batch.reduce((bytes, [, size]) => bytes + size, 0) <= BULK.bytes;
  if (good) return batch as WantedFile[];
  throw new SvcError("argument_invalid", "Cannot send files: what the server asks is not readable");
}

/** Contents of a batch, in its order; neighbours of one folder are read in one go. */
function* readBatch(
  folder: ConfinedFolder,
  batch: readonly WantedFile[],
): Generator<Uint8Array | FileError> {
  for (let at = 0; at < batch.length;) {
    const slash = batch[at][0].lastIndexOf("/");
    const prefix = batch[at][0].slice(0, slash + 1);
    const wanted: { name: string; most: number }[] = [];
    for (; at < batch.length; at++) {
      const [path, size] = batch[at];
      if (!path.startsWith(prefix) || path.indexOf("/", prefix.length) >= 0) break;
      // One byte more than the listed size shows that the file became longer.
      wanted.push({ name: path.slice(prefix.length), most: size + 1 });
    }
    yield* folder.readFiles(slash < 0 ? [] : prefix.slice(0, slash).split("/"), wanted);
  }
}

/** Gathers frames into writes of a useful size. */
class Frames {
  #bytes = new Uint8Array(GATHERED);
  #size = 0;

  constructor(readonly stream: Duplex) {}

  /** Buffers at most one frame beyond {@linkcode GATHERED} bytes. */
  async put(index: number, content: Uint8Array | FileError): Promise<void> {
    const failed = !(content instanceof Uint8Array);
    const length = failed ? 4 : content.length;
    if (this.#size + BULK.header + length > this.#bytes.length) {
      await this.flush();
      this.#bytes = new Uint8Array(Math.max(GATHERED, BULK.header + length));
    }
    const view = new DataView(this.#bytes.buffer);
    view.setUint32(this.#size, index);
    view.setUint32(this.#size + 4, failed ? FILE_FAILED : length);
    this.#size += BULK.header;
    if (failed) view.setUint32(this.#size, content.errno);
    else this.#bytes.set(content, this.#size);
    this.#size += length;
  }

  async flush(): Promise<void> {
    if (this.#size > 0) await this.stream.write(this.#bytes.subarray(0, this.#size));
    this.#size = 0;
    this.#bytes = new Uint8Array(GATHERED);
  }
}

/** Answers requests until the server closes its side of the stream. */
export async function sendFiles(
  folder: ConfinedFolder,
  lines: LineReader,
  stream: Duplex,
): Promise<void> {
  const frames = new Frames(stream);
  let index = 0;
  for (let line = await lines.line(); line !== undefined; line = await lines.line()) {
    for (const content of readBatch(folder, checked(line))) await frames.put(index++, content);
    // The server may wait for these answers before it sends its next request.
    await frames.flush();
  }
}

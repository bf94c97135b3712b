/** The archive of a classic build's context, as far as docker's client has sent it. */
import { tarEnd } from "../../oci/tar_write.ts";

const BLOCK = 512;
/** Where a tar header says that it is one. */
const MAGIC = { at: 257, text: "ustar" };

/**
 * The archive with its end. docker's client leaves the padding of the last entry and the end away where it adds a
 * Dockerfile of another folder (`-f`), which dockerd accepts.
 */
export async function* wholeArchive(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head = new Uint8Array();
  let size = 0;
  for await (const chunk of body) {
    if (head.length < BLOCK) {
      const longer = new Uint8Array(head.length + Math.min(chunk.length, BLOCK));
      longer.set(head);
      longer.set(chunk.subarray(0, BLOCK), head.length);
      head = longer;
    }
    size += chunk.length;
    yield chunk;
  }
  const { at, text } = MAGIC;
  const plain = new TextDecoder().decode(head.subarray(at, at + text.length)) === text;
  if (!plain || size % BLOCK === 0) return;
  yield new Uint8Array(BLOCK - size % BLOCK);
  yield tarEnd();
}

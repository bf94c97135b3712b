/** Lines out of a byte stream. */

/** Yields each line without its newline, also a last line that has none. Cancels the stream when left early. */
export async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  // Parts of the current line; joined once, so that a long line does not cost quadratic time.
  let parts: string[] = [];
  for await (const chunk of stream) {
    const pieces = decoder.decode(chunk, { stream: true }).split("\n");
    for (const piece of pieces.slice(0, -1)) {
      parts.push(piece);
      yield parts.join("");
      parts = [];
    }
    parts.push(pieces.at(-1)!);
  }
  const last = parts.join("") + decoder.decode();
  if (last !== "") yield last;
}

/** A file's bytes as a stream, in fewer and larger reads than the file's own stream. */

const READ = 256 * 1024;

/**
 * Closes the file at the end. `onEnd` is called when the file was read to its end, not when the reader stops
 * earlier.
 */
export function fileStream(file: Deno.FsFile, onEnd = () => {}): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const buffer = new Uint8Array(READ);
      const got = await file.read(buffer);
      if (got !== null) return controller.enqueue(buffer.subarray(0, got));
      file.close();
      onEnd();
      controller.close();
    },
    cancel: () => file.close(),
  }, { highWaterMark: 1 });
}

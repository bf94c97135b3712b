/** Text files that somebody else may have written: in a project, a build context, an archive. */
import { formatBytes } from "./bytes.ts";

const CHUNK = 64 * 1024;

/**
 * The text of a file of at most `most` bytes. What is no regular file is refused unless `any`, as a person may name
 * a pipe: a link to a device has no end. Throws the system's errors, and an `Error` that says why, for a message of
 * the caller's.
 */
export async function readTextFile(
  path: string,
  most: number,
  { any = false }: { any?: boolean } = {},
): Promise<string> {
  const { isFile, isDirectory } = await Deno.stat(path);
  if (!isFile && !isDirectory && !any) throw new Error("it is no regular file");
  using file = await Deno.open(path);
  const decoder = new TextDecoder();
  const chunk = new Uint8Array(CHUNK);
  let text = "";
  let size = 0;
  for (let read; (read = await file.read(chunk)) !== null;) {
    if ((size += read) > most) throw new Error(`it has more than ${formatBytes(most)}`);
    text += decoder.decode(chunk.subarray(0, read), { stream: true });
  }
  return text + decoder.decode();
}

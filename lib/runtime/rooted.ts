/** Files of a root file system, found as the container would find them. */
import { locate } from "../sys/rooted.ts";

/** The text of a file inside `root`; undefined where it is missing. */
export async function readInRoot(root: string, path: string): Promise<string | undefined> {
  try {
    return await Deno.readTextFile(locate(root, path).host);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return undefined;
    }
    throw error;
  }
}

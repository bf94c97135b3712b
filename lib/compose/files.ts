/** Reads the text files of a project, within bounds. */
import { fileTrouble, isAbort } from "../base/errors.ts";
import { readTextFile } from "../base/text_file.ts";
import { invalid, MOST_BYTES } from "./yaml/read.ts";

/** Files that one project may read: an include of includes must come to an end. */
const MOST_FILES = 1000;

export class Files {
  #left = MOST_FILES;

  constructor(
    readonly stdin?: () => Promise<string>,
    readonly texts: ReadonlyMap<string, string> = new Map(),
  ) {}

  /** Counts one more use of a file, read again or not. Throws `compose_invalid` where there are too many. */
  count(file: string): void {
    if (--this.#left < 0) throw invalid(file, `the project reads more than ${MOST_FILES} files`);
  }

  /**
   * The text of a file. `named`: by the caller, who may name a pipe; what a Compose file names has to be a
   * regular file. Throws `compose_invalid`.
   */
  async text(file: string, { named = false } = {}): Promise<string> {
    this.count(file);
    const text = this.texts.get(file);
    if (text !== undefined) return text;
    if (file === "-" && named) {
      if (!this.stdin) throw invalid("standard input", "there is none here");
      return await this.stdin();
    }
    try {
      return await readTextFile(file, MOST_BYTES, { any: named });
    } catch (error) {
      if (isAbort(error)) throw error;
      throw invalid(file, fileTrouble(error));
    }
  }
}

export async function isFile(path: string): Promise<boolean> {
  try {
    return !(await Deno.stat(path)).isDirectory;
  } catch {
    return false;
  }
}

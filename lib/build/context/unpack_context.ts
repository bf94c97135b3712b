/** Unpacks a context's archive into a folder, chunk by chunk; runs in this thread or in a Worker. */
import { TarParser } from "../../oci/tar_parser.ts";
import { readNames, removeTreeSync } from "../../sys/directory.ts";
import { Extractor } from "./extract.ts";
import { type Ignore, ignoreFiles, parseIgnore, pathsAtOnce } from "../parse/ignore.ts";
import { isDirectory } from "../../sys/rooted.ts";
import { readRootedText } from "../../sys/rooted_file.ts";

export interface UnpackedContext {
  digests: Map<string, string>;
  /** Text of the Dockerfile, before .dockerignore; undefined where it is missing. */
  dockerfile?: string;
  /** Text of the .dockerignore file that was applied. */
  ignore: string;
}

/** Paths checked before other work gets its turn. */
const TURN = 500;

/** Removes what the rules leave out. An excluded folder goes too when nothing is left in it. */
async function applyIgnore(
  root: string,
  ignore: Ignore,
  digests: Map<string, string>,
): Promise<void> {
  const most = pathsAtOnce(TURN, ignore);
  let seen = 0;
  const turn = () => new Promise<void>((next) => ++seen % most ? next() : setImmediate(next));
  const visit = async (inside: string) => {
    for (const name of readNames(inside === "" ? root : `${root}/${inside}`)) {
      const path = inside === "" ? name : `${inside}/${name}`;
      const host = `${root}/${path}`;
      await turn();
      if (ignore.canSkipDir(path)) removeTreeSync(host);
      else if (isDirectory(host)) {
        await visit(path);
        if (ignore.excludes(path) && readNames(host).length === 0) removeTreeSync(host);
      } else if (ignore.excludes(path)) removeTreeSync(host);
    }
  };
  await visit("");
  for (const path of digests.keys()) {
    await turn();
    if (ignore.excludes(path)) digests.delete(path);
  }
}

/** Largest Dockerfile or ignore file, in bytes: far more than anyone writes. */
export const MAX_RULES = 4 << 20;

/**
 * Reads the Dockerfile, then removes what the ignore file leaves out (the one beside the Dockerfile, or
 * .dockerignore).
 */
export async function applyRules(
  root: string,
  path: string,
  digests: Map<string, string>,
): Promise<{ dockerfile?: string; ignore: string }> {
  const dockerfile = readRootedText(root, path, MAX_RULES);
  const rules = ignoreFiles(path).map((file) => readRootedText(root, file, MAX_RULES));
  const text = rules.find((rule) => rule !== undefined) ?? "";
  const ignore = parseIgnore(text);
  if (!ignore.empty) await applyIgnore(root, ignore, digests);
  return { ignore: text, ...(dockerfile !== undefined && { dockerfile }) };
}

/** Every call may throw `context_invalid` or `archive_invalid`. */
export class ContextUnpacker {
  #digests = new Map<string, string>();
  #extractor: Extractor;
  #parser: TarParser;

  /** `root` exists and is empty. */
  constructor(readonly root: string, readonly dockerfile: string) {
    this.#extractor = new Extractor({
      root,
      owners: "root",
      strict: true,
      digests: this.#digests,
    });
    this.#parser = new TarParser(this.#extractor);
  }

  push(chunk: Uint8Array): void {
    this.#parser.push(chunk);
  }

  async finish(): Promise<UnpackedContext> {
    this.#parser.finish();
    const { dockerfile, ignore } = await applyRules(this.root, this.dockerfile, this.#digests);
    // Removing entries changed the times of their folders, so the archive's times are set only now.
    this.#extractor.finish();
    return {
      digests: this.#digests,
      ignore,
      ...(dockerfile !== undefined && { dockerfile }),
    };
  }

  /** Closes the files of an archive that broke off. */
  abandon(): void {
    this.#extractor.abandon();
  }
}

/** SVC_JWT_JWKS_FILE: read again when the file changes. An unreadable file leaves the last good set in use. */
import { fileTrouble, SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { watchFiles } from "../../base/watch_files.ts";
import { type KeySource, PUBLIC_ALGORITHMS } from "./key_source.ts";
import { parseKeySet } from "./key_set.ts";

export interface KeySetFileOptions {
  log: Logger;
  /** Milliseconds between looks at the file. */
  everyMs?: number;
}

/** Throws `config_invalid` where the first reading fails. */
export async function keySetFile(
  path: string,
  { log, everyMs }: KeySetFileOptions,
): Promise<KeySource> {
  let generation = 0;
  const read = async () => {
    let text;
    try {
      text = await Deno.readTextFile(path);
    } catch (cause) {
      throw new Error(fileTrouble(cause));
    }
    return await parseKeySet(text);
  };
  const watch = await watchFiles([path], {
    everyMs,
    onChange: async () => {
      try {
        lookUp = await read();
        generation++;
        log.info("read the key set again", { path });
      } catch (error) {
        log.warn("cannot read the key set; the last good one stays in use", { path, error });
      }
    },
  });
  let lookUp: Awaited<ReturnType<typeof parseKeySet>>;
  try {
    lookUp = await read();
  } catch (cause) {
    watch[Symbol.dispose]();
    throw new SvcError(
      "config_invalid",
      `Cannot read SVC_JWT_JWKS_FILE: ${path}: ${(cause as Error).message}`,
      { cause, help: "name a JWKS document with public keys" },
    );
  }
  return {
    algorithms: PUBLIC_ALGORITHMS,
    own: false,
    get generation() {
      return generation;
    },
    touch: () => {},
    key: (header, token) => lookUp(header, token),
    [Symbol.dispose]: () => watch[Symbol.dispose](),
  };
}

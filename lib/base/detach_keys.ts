/** The keys that detach from a process. */
import { SvcError } from "./errors.ts";

/** "ctrl-@" is 0, "ctrl-a" 1, "ctrl-_" 31. */
const CONTROLLED = "@abcdefghijklmnopqrstuvwxyz[\\]^_";

/** Bytes of keys such as "ctrl-p,ctrl-q". Throws `usage`. */
export function parseDetachKeys(text: string): Uint8Array {
  const keys = text === "" ? [] : text.split(",");
  return Uint8Array.from(keys, (key) => {
    const [, letter] = /^ctrl-(.)$/i.exec(key) ?? [];
    const code = letter === undefined
      ? /^[\x21-\x7e]$/.test(key) ? key.charCodeAt(0) : -1
      : CONTROLLED.indexOf(letter.toLowerCase());
    if (code >= 0) return code;
    throw new SvcError(
      "usage",
      `Cannot read --detach-keys ${JSON.stringify(text)}: ${key || "an empty key"} is none`,
      {
        help: "write keys with commas between them, such as ctrl-p,ctrl-q",
      },
    );
  });
}

/**
 * What is typed, without the keys that detach: when they have come, `came` is called, and the stream ends. The
 * beginning of the keys is held back until the next key tells whether it is one.
 */
export function withoutKeys(
  keys: Uint8Array,
  came: () => void,
): TransformStream<Uint8Array, Uint8Array> {
  /** How many of the keys have come. */
  let matched = 0;
  return new TransformStream({
    transform(chunk, controller) {
      const out: number[] = [];
      for (const byte of chunk) {
        if (byte === keys[matched]) {
          if (++matched === keys.length) break;
          continue;
        }
        out.push(...keys.subarray(0, matched));
        matched = byte === keys[0] ? 1 : 0;
        if (matched === 0) out.push(byte);
      }
      if (out.length > 0) controller.enqueue(Uint8Array.from(out));
      if (matched < keys.length) return;
      came();
      controller.terminate();
    },
    flush(controller) {
      if (matched > 0 && matched < keys.length) controller.enqueue(keys.slice(0, matched));
    },
  });
}

/** Takes the values of secrets out of what a step prints. */

const SHOWN = "***";

/** Shortest value that is masked: masking shorter ones would garble ordinary output. */
const SHORTEST = 4;

/** Masks text that comes in pieces. The possible beginning of a secret waits for the next piece. */
export class Mask {
  #values: string[];
  #pending = "";

  constructor(secrets: Iterable<Uint8Array>) {
    const values = new Set<string>();
    for (const secret of secrets) {
      const text = new TextDecoder().decode(secret).trim();
      // A key of many lines may be printed line by line.
      for (const value of [text, ...text.split("\n").map((line) => line.trim())]) {
        if (value.length >= SHORTEST) values.add(value);
      }
    }
    this.#values = [...values].sort((a, b) => b.length - a.length);
  }

  push(text: string): string {
    if (this.#values.length === 0) return text;
    let whole = this.#pending + text;
    for (const value of this.#values) whole = whole.replaceAll(value, SHOWN);
    const kept = Math.max(...this.#values.map((value) => overlap(whole, value)));
    this.#pending = whole.slice(whole.length - kept);
    return whole.slice(0, whole.length - kept);
  }

  /** The text that still waits, at the end of the output. */
  flush(): string {
    const rest = this.#pending;
    this.#pending = "";
    return rest;
  }
}

/** Length of the longest end of `text` that begins `value`. */
function overlap(text: string, value: string): number {
  for (let length = Math.min(text.length, value.length - 1); length > 0; length--) {
    if (value.startsWith(text.slice(text.length - length))) return length;
  }
  return 0;
}

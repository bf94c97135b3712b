/** The chunked transfer coding of HTTP/1.1 (RFC 9112 7.1), read strictly and in place. */

/** Most bytes of a chunk-size line, and of all trailer lines together. */
const LINE = 256;
const TRAILER = 8 * 1024;
/** Most digits of a chunk size. From fourteen on a size could exceed what a number counts exactly. */
const DIGITS = 12;

const CR = 13;
const LF = 10;
const SEMICOLON = 59;

type State = "size" | "extension" | "size end" | "data" | "data cr" | "data lf" | "trailer";

function digitOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const letter = byte | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

export class ChunkedError extends Error {}

/** Decodes one body, in pieces as they come. */
export class ChunkedDecoder {
  #state: State = "size";
  #size = 0;
  #digits = 0;
  #line = 0;
  #trailer = 0;
  #afterCr = false;

  /**
   * Calls `data` with the ranges of `bytes` that belong to the body. Returns the offset after the body's end;
   * undefined where the body continues. Throws {@linkcode ChunkedError}; must not be called after the end.
   */
  feed(bytes: Uint8Array, data: (start: number, end: number) => void): number | undefined {
    for (let at = 0; at < bytes.length;) {
      if (this.#state === "data") {
        const end = Math.min(bytes.length, at + this.#size);
        data(at, end);
        this.#size -= end - at;
        at = end;
        if (this.#size === 0) this.#state = "data cr";
        continue;
      }
      if (this.#step(bytes[at++])) return at;
    }
    return undefined;
  }

  /** One byte of the framing; true at the body's end. */
  #step(byte: number): boolean {
    switch (this.#state) {
      case "size":
        return this.#sizeByte(byte);
      case "extension":
        if (byte === CR) this.#state = "size end";
        else if (byte === LF || ++this.#line > LINE) throw malformed();
        return false;
      case "size end":
        if (byte !== LF) throw malformed();
        this.#state = this.#size === 0 ? "trailer" : "data";
        this.#line = 0;
        return false;
      case "data cr":
        if (byte !== CR) throw malformed();
        this.#state = "data lf";
        return false;
      case "data lf":
        if (byte !== LF) throw malformed();
        this.#state = "size";
        this.#digits = this.#line = 0;
        return false;
      default:
        return this.#trailerByte(byte);
    }
  }

  #sizeByte(byte: number): boolean {
    const digit = digitOf(byte);
    if (digit >= 0 && this.#digits < DIGITS) {
      this.#size = this.#size * 16 + digit;
      this.#digits++;
      return false;
    }
    if (this.#digits === 0) throw malformed();
    if (byte === CR) this.#state = "size end";
    else if (byte === SEMICOLON) this.#state = "extension";
    else throw malformed();
    return false;
  }

  /** Skips trailer fields up to an empty line. `#line` counts the bytes of a line. */
  #trailerByte(byte: number): boolean {
    if (++this.#trailer > TRAILER) throw malformed();
    if (this.#afterCr !== (byte === LF)) throw malformed();
    if (this.#afterCr) {
      this.#afterCr = false;
      if (this.#line === 0) return true;
      this.#line = 0;
    } else if (byte === CR) {
      this.#afterCr = true;
    } else {
      this.#line++;
    }
    return false;
  }
}

const malformed = () => new ChunkedError("the chunks of the body are malformed");

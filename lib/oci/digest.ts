/** Digests of the OCI Image Specification 1.1 ("Digests"): sha256 and sha512, in lower-case hex. */
import type { Hash } from "node:crypto";
import { createHash } from "../base/hash.ts";
import { SvcError } from "../base/errors.ts";
import type { Digest } from "./types.ts";

export type DigestAlgorithm = "sha256" | "sha512";

export interface ParsedDigest {
  algorithm: DigestAlgorithm;
  /** 64 (sha256) or 128 (sha512) lower-case hex digits. */
  hex: string;
}

const FORM = /^(?:(sha256):([0-9a-f]{64})|(sha512):([0-9a-f]{128}))$/;

/** Parses a digest. Throws `digest_invalid`. */
export function parseDigest(text: string): ParsedDigest {
  const match = FORM.exec(text);
  if (!match) {
    throw new SvcError(
      "digest_invalid",
      `Cannot read digest ${
        JSON.stringify(text.slice(0, 160))
      }: expected sha256: and 64 or sha512: and 128 lower-case hex digits`,
    );
  }
  return { algorithm: (match[1] ?? match[3]) as DigestAlgorithm, hex: match[2] ?? match[4] };
}

/** True where `parseDigest` accepts the text. */
export function isDigest(text: string): boolean {
  return FORM.test(text);
}

/** The digest of a whole buffer. */
export function digestOf(bytes: Uint8Array, algorithm: DigestAlgorithm = "sha256"): Digest {
  return `${algorithm}:${createHash(algorithm).update(bytes).digest("hex")}`;
}

/** Computes a digest piece by piece. */
export interface Digester {
  readonly algorithm: DigestAlgorithm;
  update(bytes: Uint8Array): void;
  /** The digest of the bytes so far; more may follow. */
  digest(): Digest;
  /** An independent digester that has seen the same bytes. */
  copy(): Digester;
}

class NodeDigester implements Digester {
  #hash: Hash;

  constructor(readonly algorithm: DigestAlgorithm, hash: Hash = createHash(algorithm)) {
    this.#hash = hash;
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  digest(): Digest {
    return `${this.algorithm}:${this.#hash.copy().digest("hex")}`;
  }

  copy(): Digester {
    return new NodeDigester(this.algorithm, this.#hash.copy());
  }
}

export function createDigester(algorithm: DigestAlgorithm = "sha256"): Digester {
  return new NodeDigester(algorithm);
}

/**
 * Passes the bytes on and verifies them. The result errors instead of ending where they are not `size` bytes
 * (`size_invalid`) or do not have `digest` (`digest_invalid`); a body that is too long errors at once. Throws
 * `digest_invalid` where `digest` itself is malformed. `size` absent: only the digest is verified. `wrong` is
 * called with the actual digest where it differs.
 */
export function verified(
  stream: ReadableStream<Uint8Array>,
  digest: Digest,
  size?: number,
  wrong?: (message: string) => void,
): ReadableStream<Uint8Array> {
  const digester = createDigester(parseDigest(digest).algorithm);
  let seen = 0;
  const check = (ended: boolean) => {
    if (size !== undefined && (seen > size || (ended && seen !== size))) {
      throw new SvcError(
        "size_invalid",
        `Cannot accept ${digest}: expected ${size} bytes, got ${ended ? seen : "more"}`,
      );
    }
  };
  return stream.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        seen += chunk.length;
        check(false);
        digester.update(chunk);
        controller.enqueue(chunk);
      },
      flush() {
        check(true);
        const actual = digester.digest();
        if (actual !== digest) {
          wrong?.(`its ${seen} bytes have the digest ${actual}`);
          throw new SvcError(
            "digest_invalid",
            `Cannot accept ${digest}: the bytes have the digest ${actual}`,
          );
        }
      },
    }),
  );
}

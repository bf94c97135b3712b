/** The bound on what archives and layers give when they are unpacked: a few bytes may become any number. */
import { formatBytes } from "../base/bytes.ts";
import { SvcError } from "../base/errors.ts";

/**
 * Of archives and layers beyond SVC_MAX_BUILD_UNPACKED_BYTES. `what` cannot be unpacked is left out where
 * whoever reads the error says it; `whole` has the bytes.
 */
export function unpackedTooLarge(limit: number, what?: string, whole = "it"): SvcError {
  const attempted = what === undefined ? "" : `Cannot unpack ${what}: `;
  return new SvcError(
    "too_large",
    `${attempted}${whole} has more than ${formatBytes(limit)} unpacked`,
    { help: "check where it comes from, or raise SVC_MAX_BUILD_UNPACKED_BYTES on the server" },
  );
}

/** The chunks, until they are more than `limit` bytes. */
export async function* limited(
  chunks: AsyncIterable<Uint8Array>,
  limit: number | undefined,
  tooLarge: (limit: number) => Error,
): AsyncGenerator<Uint8Array, void, void> {
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.length;
    if (limit !== undefined && size > limit) throw tooLarge(limit);
    yield chunk;
  }
}

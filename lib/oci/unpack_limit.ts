/** Limits the unpacked size of archives and layers: a few bytes may unpack to any number. */
import { formatBytes } from "../base/bytes.ts";
import { SvcError } from "../base/errors.ts";

/**
 * The error of an archive or layer beyond SVC_MAX_BUILD_UNPACKED_BYTES. `what`: the thing that cannot be
 * unpacked; absent where the caller's message names it. `whole`: subject of the size in the message.
 */
export function unpackedTooLarge(limit: number, what?: string, whole = "it"): SvcError {
  const attempted = what === undefined ? "" : `Cannot unpack ${what}: `;
  return new SvcError(
    "too_large",
    `${attempted}${whole} has more than ${formatBytes(limit)} unpacked`,
    { help: "check where it comes from, or raise SVC_MAX_BUILD_UNPACKED_BYTES on the server" },
  );
}

/** Passes the chunks on; throws beyond `limit` bytes. */
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

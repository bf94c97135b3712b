/** Byte ranges of stored objects. */
import { SvcError } from "../base/errors.ts";
import type { ByteRange } from "../oci/image.ts";

/**
 * Resolves a range against an object of `total` bytes. An end past the object's end is cut. A start past it (or
 * past the range's end) throws `range_invalid` with the total in its detail.
 */
export function resolveRange(
  range: ByteRange | undefined,
  total: number,
  name: string,
): { offset: number; size: number } {
  if (!range) return { offset: 0, size: total };
  const { start, end = Infinity } = range;
  if (!Number.isSafeInteger(start) || start < 0 || start >= total || end < start) {
    throw new SvcError(
      "range_invalid",
      `Cannot read bytes ${start}-${end === Infinity ? "" : end} of ${name}: it has ${total}`,
      { detail: { size: total } },
    );
  }
  return { offset: start, size: Math.min(end + 1, total) - start };
}

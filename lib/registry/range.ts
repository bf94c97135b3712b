/** Range headers of requests: RFC 9110 for downloads, the distribution specification's for uploads. */
import { SvcError } from "../base/errors.ts";
import type { ByteRange } from "../oci/image.ts";

/**
 * The one requested range, resolved against `size`. Undefined: serve the whole blob (no range, several, another
 * unit, or malformed: RFC 9110 14.2 lets a server ignore those). Throws `range_invalid` where the range lies
 * outside.
 */
export function parseRange(
  header: string | null,
  size: number,
): Required<ByteRange> | undefined {
  const match = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? "");
  if (!match || (match[1] === "" && match[2] === "")) return undefined;
  const unsatisfiable = () =>
    new SvcError("range_invalid", `Cannot serve ${header}: the blob has ${size} bytes`, {
      detail: { size },
    });
  if (match[1] === "") {
    const last = Number(match[2]);
    if (last === 0 || size === 0) throw unsatisfiable();
    return { start: Math.max(0, size - last), end: size - 1 };
  }
  const start = Number(match[1]);
  const end = match[2] === "" ? size - 1 : Number(match[2]);
  if (match[2] !== "" && end < start) return undefined;
  if (start >= size) throw unsatisfiable();
  return { start, end: Math.min(end, size - 1) };
}

/**
 * The Content-Range of a chunk: `<start>-<end>` as the specification has it, or with `bytes` and `/total` as
 * HTTP does. Undefined where there is none. Throws `blob_upload_invalid`.
 */
export function parseContentRange(header: string | null): Required<ByteRange> | undefined {
  if (header === null) return undefined;
  const match = /^(?:bytes[ =])?[ \t]*(\d{1,16})-(\d{1,16})(?:\/(?:\d+|\*))?$/i.exec(header.trim());
  const [start, end] = match ? [Number(match[1]), Number(match[2])] : [NaN, NaN];
  if (!match || end < start || !Number.isSafeInteger(end)) {
    throw new SvcError(
      "blob_upload_invalid",
      `Cannot read Content-Range ${JSON.stringify(header.slice(0, 80))}: expected <first>-<last>`,
    );
  }
  return { start, end };
}

/** The bytes that an upload holds, for its Range header. The specification writes "0-0" for no bytes. */
export function heldRange(offset: number): string {
  return `0-${Math.max(0, offset - 1)}`;
}

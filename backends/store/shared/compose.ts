/** Joins segments and a tail into one object within the service. */
import type { Bucket, Call, Part, Piece } from "./bucket.ts";
import { collect } from "./body.ts";
import { isNotImplemented, isRefusedCondition, serviceCode } from "./errors.ts";
import { PART, type Segment } from "./upload_state.ts";

/** Most bytes of one copy: large enough to need few copies, small enough to end soon. */
const LARGEST = 64 * 1024 * 1024;
/** S3's limit of parts per object; other services allow more. */
export const MOST_PARTS = 10_000;
/** Copies under way at once. */
const AT_ONCE = 6;

const gcd = (a: number, b: number): number => b === 0 ? a : gcd(b, a % b);

function cut(segments: Segment[], size: number): Piece[] {
  return segments.flatMap((segment) =>
    Array.from({ length: Math.ceil(segment.size / size) }, (_, i) => ({
      key: segment.key,
      start: i * size,
      end: Math.min((i + 1) * size, segment.size) - 1,
    }))
  );
}

/**
 * Divides segments into pieces of one size, since some services accept no others; segments are whole numbers of
 * parts. Only where there would be too many pieces for one object, pieces end with their segments.
 */
export function pieces(segments: Segment[]): Piece[] {
  const common = segments.reduce((size, segment) => gcd(size, segment.size), 0);
  let size = PART;
  for (let next = PART; next <= LARGEST; next += PART) if (common % next === 0) size = next;
  const equal = cut(segments, size);
  if (equal.length < MOST_PARTS) return equal;
  const total = segments.reduce((sum, segment) => sum + segment.size, 0);
  return cut(segments, Math.max(LARGEST, Math.ceil(total / (MOST_PARTS / 2))));
}

/** Copies within the service or, where it cannot, through this process. */
async function copyPiece(
  bucket: Bucket,
  piece: Piece,
  key: string,
  uploadId: string,
  number: number,
): Promise<Part> {
  try {
    return await bucket.copyPart(piece, key, uploadId, number);
  } catch (error) {
    if (!isNotImplemented(error)) throw error;
    const found = await bucket.get(piece.key, piece);
    if (!found) throw error;
    const bytes = await collect(found.body, piece.end + 1 - piece.start);
    return await bucket.uploadPart(key, uploadId, number, bytes);
  }
}

export interface Composition {
  segments: Segment[];
  /** Comes last; may be empty. */
  tail: Uint8Array;
  key: string;
  /** Keeps an existing object, where the service can tell. */
  ifAbsent: boolean;
  /** Records the multipart upload before it holds any data, so that it can be found. */
  record: (uploadId: string) => Promise<void>;
  /** Begins the names of temporary objects, for a service that joins whole objects. */
  scratch: string;
}

/** False where `ifAbsent` found an object. Atomic: `key` shows the whole object or none. */
export async function compose(
  bucket: Bucket,
  what: Composition,
  call: Call = {},
): Promise<boolean> {
  if (!bucket.join) return await composeOfParts(bucket, what, call);
  try {
    await bucket.join({ ...what, sources: what.segments.map(({ key }) => key) }, call);
    return true;
  } catch (error) {
    if (what.ifAbsent && isRefusedCondition(error)) return false;
    throw error;
  }
}

async function composeOfParts(bucket: Bucket, what: Composition, call: Call): Promise<boolean> {
  const { key } = what;
  const uploadId = await bucket.createMultipart(key, call);
  try {
    await what.record(uploadId);
    const todo = pieces(what.segments);
    const parts: Part[] = [];
    let next = 0;
    const worker = async () => {
      while (next < todo.length) {
        const index = next++;
        call.signal?.throwIfAborted();
        parts[index] = await copyPiece(bucket, todo[index], key, uploadId, index + 1);
      }
    };
    const done = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker));
    for (const result of done) if (result.status === "rejected") throw result.reason;
    if (what.tail.length > 0) {
      parts.push(await bucket.uploadPart(key, uploadId, parts.length + 1, what.tail, call));
    }
    await bucket.complete(key, uploadId, parts, { ...call, ifAbsent: what.ifAbsent });
    return true;
  } catch (error) {
    await bucket.abortMultipart(key, uploadId).catch(
      () => {/* the record stays for a later try */},
    );
    if (what.ifAbsent && isRefusedCondition(error)) return false;
    // The answer to the first attempt was lost, and the request was repeated.
    if (serviceCode(error) === "NoSuchUpload" && await bucket.head(key)) return true;
    throw error;
  }
}

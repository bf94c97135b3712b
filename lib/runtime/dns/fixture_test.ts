/** Queries for tests. */
import { RecordType } from "./message.ts";

/** A query as C libraries write it. */
export function query(name: string, type: number = RecordType.A, id = 7): Uint8Array {
  const labels = name.split(".").filter(Boolean).flatMap((label) => [
    label.length,
    ...new TextEncoder().encode(label),
  ]);
  return Uint8Array.from([
    ...[id >> 8, id & 0xff, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    ...[...labels, 0, type >> 8, type & 0xff, 0, 1],
  ]);
}

/** Keys of a large store, a page at a time. */
import type { CallOptions, ObjectStore } from "../object_store.ts";

/** Keys in a page, for a store without pages of its own. */
const PAGE = 1_000;

/** All keys below `prefix`. */
export async function* keyPages(
  objects: ObjectStore,
  prefix: string,
  call: CallOptions,
): AsyncGenerator<string[]> {
  let keys: string[] = [];
  for await (const entry of objects.list(prefix, { ...call, brief: true })) {
    if ("key" in entry) keys.push(entry.key);
    if (keys.length < PAGE) continue;
    yield keys;
    keys = [];
  }
  if (keys.length > 0) yield keys;
}

/** Keys of a large store, a page at a time. */
import type { CallOptions, ObjectStore } from "../object_store.ts";

/** Keys of a page of a store that has no pages of its own. */
const PAGE = 1_000;

/** All keys below `prefix`, in no order. */
export async function* keyPages(
  objects: ObjectStore,
  prefix: string,
  call: CallOptions,
): AsyncGenerator<string[]> {
  if (objects.scan) {
    for await (const page of objects.scan(prefix, call)) yield page.keys;
    return;
  }
  let keys: string[] = [];
  for await (const entry of objects.list(prefix, { ...call, brief: true })) {
    if ("key" in entry) keys.push(entry.key);
    if (keys.length < PAGE) continue;
    yield keys;
    keys = [];
  }
  if (keys.length > 0) yield keys;
}

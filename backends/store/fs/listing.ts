/** Keys below a folder, in the byte order that a bucket would list them. */
import { join } from "node:path";
import type { ListEntry } from "../../../lib/store/object_store.ts";

async function namesOf(path: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(path)) {
      // "a/…" sorts after "a-b": a folder takes part in the order with its slash.
      if (entry.isDirectory) names.push(`${entry.name}/`);
      else if (entry.isFile) names.push(entry.name);
    }
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return [];
    }
    throw error;
  }
  // Keys are ASCII: the order of UTF-16 units is the order of bytes.
  return names.sort((a, b) => a < b ? -1 : 1);
}

async function holdsFile(path: string): Promise<boolean> {
  for (const name of await namesOf(path)) {
    if (!name.endsWith("/") || await holdsFile(join(path, name))) return true;
  }
  return false;
}

export interface Walk {
  after?: string;
  delimiter?: "/";
  brief?: boolean;
  signal?: AbortSignal;
}

/** `prefix` is empty or ends with "/". Empty folders, which a bucket has not, are passed over. */
export async function* walk(
  root: string,
  prefix: string,
  options: Walk,
): AsyncGenerator<ListEntry> {
  const { after, brief, delimiter, signal } = options;
  for (const name of await namesOf(join(root, prefix))) {
    signal?.throwIfAborted();
    const key = prefix + name;
    const path = join(root, key);
    if (name.endsWith("/")) {
      const passed = after !== undefined && key <= after;
      if (delimiter) {
        if (!passed && await holdsFile(path)) yield { prefix: key };
      } else if (!passed || after.startsWith(key)) {
        yield* walk(root, key, options);
      }
      continue;
    }
    if (after !== undefined && key <= after) continue;
    if (brief) {
      yield { key, size: 0, modified: new Date(0) };
      continue;
    }
    const info = await Deno.stat(path).catch((error) => {
      if (error instanceof Deno.errors.NotFound) return undefined;
      throw error;
    });
    if (info) yield { key, size: info.size, modified: info.mtime ?? new Date(0) };
  }
}

/** Keys below a folder, in the byte order that a bucket would list them. */
import { ifThere } from "../../../lib/base/fs.ts";
import { join } from "node:path";
import type { ListEntry } from "../../../lib/store/object_store.ts";

/** The characters of keys. Files with other names do not belong to the store. */
const NAME = /^[A-Za-z0-9._:+%-]+$/;

async function namesOf(path: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(path)) {
      if (!NAME.test(entry.name)) continue;
      // "a/…" sorts after "a-b": a folder is sorted by its name with the slash.
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
  return names.sort();
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

/** A folder that is being walked: the prefix of its keys, and the names still to come. */
interface Level {
  prefix: string;
  names: string[];
  next: number;
  /** The next folder, which is read in advance. */
  ahead?: { key: string; names: Promise<string[]> };
}

/** `prefix` is empty or ends with "/". Empty folders are skipped: a bucket has none. */
export async function* walk(
  root: string,
  prefix: string,
  options: Walk,
): AsyncGenerator<ListEntry> {
  const { after, brief, delimiter, signal } = options;
  const read = (prefix: string) => namesOf(join(root, prefix));
  const open = async (prefix: string, parent?: Level): Promise<Level> => {
    const ahead = parent?.ahead?.key === prefix ? parent.ahead.names : undefined;
    const coming = parent?.names[parent.next];
    if (parent) parent.ahead = undefined;
    if (parent && coming?.endsWith("/")) {
      const key = parent.prefix + coming;
      parent.ahead = { key, names: read(key) };
      // A reader that leaves early does not need this folder's error.
      parent.ahead.names.catch(() => {});
    }
    return { prefix, names: await (ahead ?? read(prefix)), next: 0 };
  };
  // A loop, not recursion: each entry would pass through one generator per level.
  const levels = [await open(prefix)];
  for (let level = levels.at(-1); level; level = levels.at(-1)) {
    if (level.next === level.names.length) {
      levels.pop();
      continue;
    }
    const name = level.names[level.next++];
    signal?.throwIfAborted();
    const key = level.prefix + name;
    if (name.endsWith("/")) {
      const passed = after !== undefined && key <= after;
      if (delimiter) {
        if (!passed && await holdsFile(join(root, key))) yield { prefix: key };
      } else if (!passed || after.startsWith(key)) levels.push(await open(key, level));
      continue;
    }
    if (after !== undefined && key <= after) continue;
    if (brief) {
      yield { key, size: 0, modified: new Date(0) };
      continue;
    }
    const info = await ifThere(Deno.stat(join(root, key)));
    if (info) yield { key, size: info.size, modified: info.mtime ?? new Date(0) };
  }
}

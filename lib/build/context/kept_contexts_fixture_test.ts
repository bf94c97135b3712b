/** Kept contexts whose callers are tables. */
import assert from "node:assert/strict";
import { silent } from "../../base/log.ts";
import { KeptContexts } from "./kept_contexts.ts";
import type { ListedEntry, ListingPart, SameParts } from "../../api/build_session.ts";
import { changedLines } from "../../client/build_listing.ts";
import type { RemoteEntry, RemoteTree } from "./remote.ts";
import { select } from "./tree.ts";
import { contentKey } from "./tree_keys.ts";

export const LAZY = { reading: { ways: [] }, log: silent };

/** One test on an empty folder of kept contexts. */
export const test = (name: string, fn: (at: Fixture) => Promise<void>) =>
  Deno.test({
    name: `kept contexts: ${name}`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      const root = await Deno.makeTempDir({ prefix: "svc-kept-" });
      try {
        await fn(new Fixture(root, await KeptContexts.open(root, LAZY)));
      } finally {
        await Deno.remove(root, { recursive: true });
      }
    },
  });

export type Content = string | null | { link: string };

/** A caller whose folder is a table; counts what is read of it. */
export class Caller implements RemoteTree {
  identity = "me:/app";
  lazy = false;
  reads: string[] = [];
  /** Whether the listing was the same, and how many entries were told. */
  same: boolean[] = [];
  told = 0;
  /** What reading a path gives, where it is not what was listed. */
  wrong: Record<string, string> = {};
  stamps = new Map<string, number>();

  constructor(public files: Record<string, Content>) {}

  entry(path: string, content: Content): RemoteEntry {
    const stamp = String(this.stamps.get(path) ?? 0);
    const common = { path, stamp, mtime: 1_700_000_000, mtimeNs: 123_456_789 };
    if (content === null) return { ...common, type: "directory", mode: 0o755, size: 0 };
    if (typeof content !== "string") {
      return { ...common, type: "symlink", mode: 0o777, size: 0, link: content.link };
    }
    return { ...common, type: "file", mode: 0o640, size: content.length };
  }

  change(path: string, content: Content): void {
    this.files[path] = content;
    this.stamps.set(path, (this.stamps.get(path) ?? 0) + 1);
  }

  async *entries() {
    yield Object.entries(this.files).map(([path, content]) => this.entry(path, content));
  }

  async *read(path: string) {
    this.reads.push(path);
    const text = this.wrong[path] ?? this.files[path] as string;
    for (let at = 0; at < text.length; at += 3) {
      yield new TextEncoder().encode(text.slice(at, at + 3));
    }
  }

  /** Files that are read together; the test says whether they are. */
  readMany?: RemoteTree["readMany"];

  async *together(files: readonly RemoteEntry[]): AsyncGenerator<Uint8Array[]> {
    for (let at = 0; at < files.length; at += 2) {
      const some = files.slice(at, at + 2).map(({ path }) => path);
      this.reads.push(...some);
      yield some.map((path) =>
        new TextEncoder().encode(this.wrong[path] ?? this.files[path] as string)
      );
    }
  }

  /** As svc's client answers it. */
  async *changes(parts: readonly ListingPart[]): AsyncGenerator<(RemoteEntry | SameParts)[]> {
    const entries = Object.entries(this.files).map(([path, content]) => this.entry(path, content));
    const listed = async function* () {
      yield entries.map((entry): ListedEntry => {
        const { path, type, mode, size, mtime, mtimeNs, stamp, link } = entry;
        const kind = type === "symlink" ? "l" : type === "file" ? "f" : "d";
        const fields = [path, kind, mode, size, mtime, mtimeNs, stamp] as const;
        return link === undefined ? [...fields] : [...fields, link];
      });
    };
    let text = "";
    for await (const some of changedLines(listed(), parts)) text += some.text;
    const lines = text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
    const told = lines.filter((line) => Array.isArray(line)).length;
    this.told += told;
    this.same.push(told === 0 && lines[0]?.same?.[1] === parts.length);
    const byPath = new Map(entries.map((entry) => [entry.path, entry]));
    yield lines.map((line) => Array.isArray(line) ? byPath.get(line[0])! : line);
  }

  taken(): string[] {
    return this.reads.splice(0).sort();
  }
}

export class Fixture {
  signal = new AbortController().signal;
  constructor(readonly root: string, readonly kept: KeptContexts) {}

  /** What a step that selects `paths` finds there. */
  async build(caller: RemoteTree, ...paths: string[]): Promise<Record<string, string>> {
    await using tree = await this.kept.use(caller, { signal: this.signal });
    const found: Record<string, string> = {};
    for (const path of paths) {
      const selections = select(tree, path, false);
      assert.equal(selections.length, 1, path);
      found[path] = await contentKey(tree, selections);
      if (!selections[0].directory) {
        found[path] = await Deno.readTextFile(`${tree.root}/${selections[0].path}`);
      }
    }
    return found;
  }
}

/** A caller's folder to begin with. */
export const files = (): Record<string, Content> => ({
  "a": null,
  "a/one": "first file",
  "a/two": "second",
  "b": null,
  "b/three": "third",
  "empty": "",
  "link": { link: "a/one" },
});

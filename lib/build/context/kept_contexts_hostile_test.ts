import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { type RemoteEntry, type RemoteTree } from "./remote.ts";
import { select } from "./tree.ts";
import { contentKey } from "./tree_keys.ts";

import { Caller, files, test } from "./kept_contexts_fixture_test.ts";

const invalid = (error: unknown) => error instanceof SvcError && error.code === "context_invalid";

test("a file that changes while it is read fails the build, and nothing is kept of it", async (at) => {
  for (
    const [text, together] of ["longer than listed", "x", ""].flatMap((text) => [
      [text, false] as const,
      [text, true] as const,
    ])
  ) {
    const caller = new Caller(files());
    if (together) caller.readMany = (files) => caller.together(files);
    caller.wrong["a/two"] = text;
    await assert.rejects(at.build(caller, "a"), invalid);
    assert.deepEqual(await at.kept.items(), []);
    assert.deepEqual(
      [...Deno.readDirSync(at.root)].flatMap((
        { name },
      ) => [...Deno.readDirSync(`${at.root}/${name}`)]),
      [],
    );
  }
});

test("listings that are no tree are refused", async (at) => {
  const caller = new Caller({});
  const entry = (path: string, more: object = {}) => ({ ...caller.entry(path, "text"), ...more });
  const folder = (path: string) => caller.entry(path, null);
  const listings: unknown[][] = [
    [entry("../out")],
    [entry("/etc/passwd")],
    [entry("a/../../b")],
    [entry("\u00e9".repeat(128))],
    Array.from({ length: 257 }, (_, depth) => folder("d/".repeat(depth) + "d")),
    [entry("./a")],
    [entry("a//b")],
    [entry("")],
    [entry("nul\0")],
    [entry("x".repeat(256))],
    [entry(7 as never)],
    [entry("a"), entry("a")],
    [entry("a/b")],
    [entry("a"), entry("a/b")],
    [{ ...folder("a"), type: "symlink", link: ".." }, entry("a/b")],
    [entry("a", { size: -1 })],
    [entry("a", { size: 1.5 })],
    [entry("a", { size: "1" })],
    [entry("a", { type: "device" })],
    [entry("a", { type: "symlink" })],
    [entry("a", { type: "symlink", link: "nul\0" })],
    [entry("a", { stamp: undefined })],
    [entry("a", { mtime: Infinity })],
    [entry("a", { mtimeNs: 1e9 })],
    [entry("a", { mtimeNs: -1 })],
    [entry("a", { link: "b" })],
    [entry("a", { link: "a" })],
    [entry("a"), entry("b", { link: "a" }), entry("c", { link: "b" })],
    [folder("a"), entry("b", { link: "a" })],
    [entry("a"), { ...folder("b"), link: "a" }],
  ];
  for (const listing of listings) {
    const remote: RemoteTree = {
      identity: "hostile",
      lazy: false,
      entries: async function* () {
        yield listing as RemoteEntry[];
      },
      read: async function* () {},
    };
    await assert.rejects(
      at.kept.use(remote, { signal: at.signal }),
      invalid,
      JSON.stringify(listing),
    );
  }
  assert.deepEqual(await at.kept.items(), []);
});

test("a build that is cancelled ends its reading", async (at) => {
  const abort = new AbortController();
  const caller = new Caller(files());
  const remote: RemoteTree = {
    identity: "slow",
    lazy: false,
    entries: () => caller.entries(),
    read: async function* (_path, _size, signal) {
      yield new Uint8Array(1);
      abort.abort(new SvcError("cancelled", "Cannot go on: the client went away"));
      await new Promise((_, reject) =>
        signal.aborted
          ? reject(signal.reason)
          : signal.addEventListener("abort", () => reject(signal.reason))
      );
    },
  };
  await using tree = await at.kept.use(remote, { signal: abort.signal });
  await assert.rejects(contentKey(tree, select(tree, "a", false)), /client went away/);
});

import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { KeptContexts } from "./kept_contexts.ts";
import { listingHash, type RemoteEntry, type RemoteTree } from "./remote.ts";
import { ignorePatterns } from "../parse/ignore.ts";
import { contentKey, latestTime, select } from "./tree.ts";

const LAZY = { reading: { ways: [] }, log: silent };

const test = (name: string, fn: (at: Fixture) => Promise<void>) =>
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

type Content = string | null | { link: string };

/** A caller whose folder is a table; counts what is read of it. */
class Caller implements RemoteTree {
  identity = "me:/app";
  lazy = false;
  reads: string[] = [];
  /** What was answered whether the listing is the same. */
  same: boolean[] = [];
  /** What reading a path gives, where it is not what was listed. */
  wrong: Record<string, string> = {};
  stamps = new Map<string, number>();

  constructor(public files: Record<string, Content>) {}

  entry(path: string, content: Content): RemoteEntry {
    const stamp = String(this.stamps.get(path) ?? 0);
    const common = { path, stamp, mtime: 1_700_000_000_000 };
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

  unchanged(digest: string): Promise<boolean> {
    const hash = listingHash();
    for (const [path, content] of Object.entries(this.files)) hash.add(this.entry(path, content));
    const same = hash.digest() === digest;
    this.same.push(same);
    return Promise.resolve(same);
  }

  taken(): string[] {
    return this.reads.splice(0).sort();
  }
}

class Fixture {
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

const files = (): Record<string, Content> => ({
  "a": null,
  "a/one": "first file",
  "a/two": "second",
  "b": null,
  "b/three": "third",
  "empty": "",
  "link": { link: "a/one" },
});

test("only what is selected is read, and only what changed is read again", async (at) => {
  const caller = new Caller(files());
  assert.deepEqual(await at.build(caller, "a/one"), { "a/one": "first file" });
  assert.deepEqual(caller.taken(), ["a/one"]);
  const first = await at.build(caller, "a", "link", "empty");
  assert.equal(first.link, "first file");
  assert.deepEqual(caller.taken(), ["a/two", "empty"]);
  assert.deepEqual(await at.build(caller, "a", "link", "empty"), first);
  assert.deepEqual(caller.taken(), []);
  caller.change("a/two", "other!");
  const second = await at.build(caller, "a", "b");
  assert.notEqual(second.a, first.a);
  assert.deepEqual(caller.taken(), ["a/two", "b/three"]);
  caller.change("a/two", "second");
  assert.equal((await at.build(caller, "a")).a, first.a);
  // A later server finds it as it was left.
  const later = new Fixture(at.root, await KeptContexts.open(at.root, LAZY));
  caller.taken();
  assert.deepEqual(caller.same, [true, true, false, false]);
  assert.equal((await later.build(caller, "a")).a, first.a);
  assert.deepEqual(caller.taken(), []);
});

test("small files are read together, and again where they changed", async (at) => {
  const caller = new Caller(files());
  caller.readMany = (files) => caller.together(files);
  caller.read = () => assert.fail("a file by itself");
  const first = await at.build(caller, "a", "b", "empty");
  assert.deepEqual(caller.taken(), ["a/one", "a/two", "b/three", "empty"]);
  caller.change("a/two", "other!");
  const changed = await at.build(caller, "a", "b", "a/two");
  assert.deepEqual(caller.taken(), ["a/two"]);
  assert.deepEqual([changed["a/two"], changed.b], ["other!", first.b]);
  assert.notEqual(changed.a, first.a);
  await using tree = await at.kept.use(caller, { signal: at.signal });
  await contentKey(tree, select(tree, "a", false));
  for (const [path, mode] of [["a", 0o755], ["a/one", 0o640], ["a/two", 0o640]] as const) {
    const info = await Deno.lstat(`${tree.root}/${path}`);
    const facts = [info.mode! & 0o7777, info.mtime!.getTime()];
    assert.deepEqual(facts, [mode, 1_700_000_000_000], path);
  }
  // Two steps that want the same at once have it read once.
  caller.identity = "another";
  await using other = await at.kept.use(caller, { signal: at.signal });
  const keys = await Promise.all(
    ["a", "a", "."].map((path) => contentKey(other, select(other, path, false))),
  );
  assert.equal(keys[0], keys[1]);
  assert.deepEqual(caller.taken(), ["a/one", "a/two", "b/three", "empty"]);
});

test("the key of what is known is that of what is on disk", async (at) => {
  const names = ["b", "a", "a-", "a.b", "a0", "\u{ffee}", "\u{1f600}", "Z"];
  const content: Record<string, Content> = { "d": null };
  for (const name of names) {
    content[`d/${name}`] = null;
    for (const [index, below] of names.entries()) content[`d/${name}/${below}`] = `${index}`;
    content[`d/${name}/link`] = { link: "../b" };
  }
  const caller = new Caller(content);
  await using tree = await at.kept.use(caller, { signal: at.signal });
  for (const path of ["d", ".", "d/a/b", "d/*", "d/a/l*"]) {
    for (const patterns of [[], ["**/b"], ["a", "!a/Z"], ["d/*", "!d/b/a"]]) {
      const selections = select(tree, path, false);
      assert.notEqual(selections.length, 0);
      const exclude = ignorePatterns(patterns);
      const known = await contentKey(tree, selections, { exclude });
      const { known: _, digests: __, ...bare } = tree;
      assert.equal(known, await contentKey(bare, selections, { exclude }), `${path} ${patterns}`);
      assert.equal(
        await latestTime(tree, selections, { exclude }),
        await latestTime(bare, selections, { exclude }),
      );
    }
  }
});

test("what is kept stays believed where a build changed nothing", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a");
  const [{ id }] = await at.kept.items();
  const state = `${at.root}/${id}/state`;
  const { ino } = await Deno.stat(state);
  await at.build(caller, "a");
  assert.equal((await Deno.stat(state)).ino, ino);
  {
    await using tree = await at.kept.use(caller, { signal: at.signal });
    await contentKey(tree, select(tree, "b", false));
    // Not before it is finished with.
    await assert.rejects(Deno.stat(state), Deno.errors.NotFound);
  }
  assert.notEqual((await Deno.stat(state)).size, 0);
});

test("what went is gone, what became something else is that", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a", "b");
  caller.files = {
    "a": "a file now",
    "c": null,
    "c/b": { link: "../a" },
    "link": null,
    "link/x": "x",
  };
  assert.deepEqual(await at.build(caller, "a", "c/b", "link/x"), {
    "a": "a file now",
    "c/b": "a file now",
    "link/x": "x",
  });
  await using tree = await at.kept.use(caller, { signal: at.signal });
  assert.deepEqual([...Deno.readDirSync(tree.root)].map(({ name }) => name).sort(), [
    "a",
    "c",
    "link",
  ]);
  const info = await Deno.lstat(`${tree.root}/c`);
  assert.deepEqual([info.mode! & 0o7777, info.mtime!.getTime()], [0o755, 1_700_000_000_000]);
});

test("links that lead out stay inside", async (at) => {
  const caller = new Caller({ "out": { link: "/etc" }, "up": { link: "../../.." } });
  await using tree = await at.kept.use(caller, { signal: at.signal });
  assert.deepEqual(select(tree, "out/passwd", false), []);
  assert.deepEqual(select(tree, "up/etc", false), []);
});

test("two builds at once have a tree each; another caller has none of it", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a");
  caller.taken();
  {
    await using one = await at.kept.use(caller, { signal: at.signal });
    await using two = await at.kept.use(caller, { signal: at.signal });
    assert.notEqual(one.root, two.root);
    await contentKey(one, select(one, "a", false));
    assert.deepEqual(caller.taken(), []);
    await contentKey(two, select(two, "a", false));
    assert.deepEqual(caller.taken(), ["a/one", "a/two"]);
    assert.equal(await at.kept.remove((await at.kept.items())[0].id), false);
  }
  const other = new Caller(files());
  other.identity = "them:/app";
  await at.build(other, "a");
  assert.deepEqual(other.taken(), ["a/one", "a/two"]);
  const items = await at.kept.items();
  assert.equal(items.length, 3);
  for (const { id } of items) assert.equal(await at.kept.remove(id), true);
  assert.deepEqual(await at.kept.items(), []);
  await at.build(caller, "a");
  assert.deepEqual(caller.taken(), ["a/one", "a/two"]);
});

test("nothing is believed after a crash in between, or another boot", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a");
  const [{ id }] = await at.kept.items();
  const state = `${at.root}/${id}/state`;
  const text = await Deno.readTextFile(state);
  for (const damage of [undefined, "rubbish", text.replace(/"[0-9a-f-]{36}"/, '"another"')]) {
    if (damage === undefined) await Deno.remove(state);
    else await Deno.writeTextFile(state, damage);
    const later = new Fixture(at.root, await KeptContexts.open(at.root, LAZY));
    caller.taken();
    await later.build(caller, "a");
    assert.deepEqual(caller.taken(), ["a/one", "a/two"], String(damage));
  }
});

test("what was damaged while no server ran is fetched again; what was not is believed", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a");
  const [{ id }] = await at.kept.items();
  const one = `${at.root}/${id}/tree/a/one`;
  const damages: Record<string, () => Promise<unknown> | void> = {
    nothing: () => {},
    missing: () => Deno.remove(one),
    empty: () => Deno.truncate(one),
    "other bytes": async () => Deno.writeFile(one, new Uint8Array((await Deno.stat(one)).size)),
    "a folder": () => Deno.remove(one).then(() => Deno.mkdir(one)),
    "a link": () => Deno.remove(one).then(() => Deno.symlink("/etc/passwd", one)),
    "a folder that is gone": () => Deno.remove(`${at.root}/${id}/tree/a`, { recursive: true }),
    "a stray file": () => Deno.writeTextFile(`${at.root}/stray`, ""),
    "another state": () => Deno.writeTextFile(`${at.root}/${id}/state`, '{"entries":7}'),
    "a state that is a folder": async () => {
      await Deno.remove(`${at.root}/${id}/state`);
      await Deno.mkdir(`${at.root}/${id}/state`);
    },
  };
  for (const [what, damage] of Object.entries(damages)) {
    await damage();
    const later = new Fixture(at.root, await KeptContexts.open(at.root, LAZY));
    caller.taken();
    await later.build(caller, "a");
    const whole = what === "nothing" || what === "a stray file";
    assert.deepEqual(caller.taken(), whole ? [] : ["a/one", "a/two"], what);
    await later.build(caller, "a");
    assert.deepEqual(caller.taken(), [], what);
  }
});

test("of folders that are built from once, the last ones are kept", async (at) => {
  const caller = new Caller({ file: "text" });
  for (let number = 0; number < 40; number++) {
    caller.identity = `folder ${number}`;
    await at.build(caller, "file");
  }
  assert.equal((await at.kept.items()).length, 32);
  caller.taken();
  await at.build(caller, "file");
  assert.deepEqual(caller.taken(), []);
  caller.identity = "folder 0";
  await at.build(caller, "file");
  assert.deepEqual(caller.taken(), ["file"]);
  assert.equal(
    [...Deno.readDirSync(at.root)].flatMap((
      { name },
    ) => [...Deno.readDirSync(`${at.root}/${name}`)]).length,
    32,
  );
});

test("what cannot be written down is not kept, and the build is none the worse for it", async (at) => {
  {
    await using _tree = await at.kept.use(new Caller(files()), { signal: at.signal });
    const [{ id }] = await at.kept.items();
    await Deno.mkdir(`${at.root}/${id}/state.new`);
  }
  assert.deepEqual(await at.kept.items(), []);
  assert.deepEqual([...Deno.readDirSync(at.root)], []);
});

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

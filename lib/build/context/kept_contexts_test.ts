import assert from "node:assert/strict";
import { KeptContexts } from "./kept_contexts.ts";
import { ignorePatterns } from "../parse/ignore.ts";
import { select } from "./tree.ts";
import { contentKey, latestTime } from "./tree_keys.ts";

import { Caller, type Content, files, Fixture, LAZY, test } from "./kept_contexts_fixture_test.ts";

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
    assert.deepEqual(facts, [mode, 1_700_000_000_123], path);
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
  assert.deepEqual([info.mode! & 0o7777, info.mtime!.getTime()], [0o755, 1_700_000_000_123]);
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

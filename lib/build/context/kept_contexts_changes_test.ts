/** Of a context that changed, what changed is listed: whatever that is, what is kept is what is there. */
import assert from "node:assert/strict";
import type { SameParts } from "../../api/build_session.ts";
import { Caller, type Content, files, type Fixture, test } from "./kept_contexts_fixture_test.ts";
import { KeptContexts } from "./kept_contexts.ts";
import { Fixture as At, LAZY } from "./kept_contexts_fixture_test.ts";
import type { RemoteEntry } from "./remote.ts";
import { select } from "./tree.ts";
import { contentKey } from "./tree_keys.ts";

/** Numbers that are the same in each run of the test. */
function randomOf(seed: number): (below: number) => number {
  return (below) => {
    seed = Math.imul(seed ^ seed >>> 15, 0x2c1b3c6d) + 0x9e3779b9 | 0;
    const mixed = Math.imul(seed ^ seed >>> 12, 0x297a2d39);
    return ((mixed ^ mixed >>> 15) >>> 0) % below;
  };
}

/** Paths as a client lists them: names of a folder in their order, each folder before what is in it. */
function listed(found: Record<string, Content>): Record<string, Content> {
  const inside = Map.groupBy(
    Object.keys(found),
    (path) => path.slice(0, Math.max(0, path.lastIndexOf("/"))),
  );
  const sorted: Record<string, Content> = {};
  const visit = (folder: string) => {
    for (const path of inside.get(folder)?.sort() ?? []) {
      sorted[path] = found[path];
      if (found[path] === null) visit(path);
    }
  };
  visit("");
  return sorted;
}

const below = (files: Record<string, Content>, path: string) =>
  Object.keys(files).filter((other) => other === path || other.startsWith(`${path}/`));

/** One change of the kinds that people make. */
function change(caller: Caller, random: (below: number) => number): void {
  const paths = Object.keys(caller.files);
  const folders = ["", ...paths.filter((path) => caller.files[path] === null)];
  const some = paths[random(paths.length)];
  const fresh = () => {
    const folder = folders[random(folders.length)];
    return `${folder}${folder && "/"}n${random(40)}`;
  };
  const contents: Content[] = ["text", "", null, { link: "a" }, { link: "../b" }];
  switch (random(6)) {
    case 0: {
      const path = fresh();
      if (path in caller.files) break;
      caller.change(path, contents[random(contents.length)]);
      break;
    }
    case 1:
      for (const path of below(caller.files, some)) delete caller.files[path];
      break;
    case 2: {
      const to = fresh();
      if (to in caller.files || `${to}/`.startsWith(`${some}/`)) break;
      for (const path of below(caller.files, some)) {
        const content = caller.files[path];
        delete caller.files[path];
        caller.change(to + path.slice(some.length), content);
      }
      break;
    }
    case 3:
      for (const path of below(caller.files, some)) delete caller.files[path];
      caller.change(some, contents[random(contents.length)]);
      break;
    default:
      if (typeof caller.files[some] === "string") caller.change(some, "x".repeat(random(50)));
  }
  caller.files = listed(caller.files);
}

/** What stands on disk. */
async function onDisk(root: string, folder = ""): Promise<Record<string, Content>> {
  const found: Record<string, Content> = {};
  for await (const { name, isDirectory, isSymlink } of Deno.readDir(`${root}/${folder}`)) {
    const path = `${folder}${name}`;
    if (isSymlink) found[path] = { link: await Deno.readLink(`${root}/${path}`) };
    else if (!isDirectory) found[path] = await Deno.readTextFile(`${root}/${path}`);
    else Object.assign(found, { [path]: null }, await onDisk(root, `${path}/`));
  }
  return found;
}

/** Builds with all of the caller's folder, and looks whether it is there. */
async function matches(at: Fixture, caller: Caller): Promise<string> {
  await using tree = await at.kept.use(caller, { signal: at.signal });
  const key = await contentKey(tree, select(tree, ".", false));
  assert.deepEqual(listed(await onDisk(tree.root)), caller.files);
  const { known: _, digests: __, ...bare } = tree;
  assert.equal(key, await contentKey(bare, select(bare, ".", false)));
  return key;
}

/** Few of them make several parts. */
const LONG = "a-long-name-".repeat(12);

const many = (count: number): Record<string, Content> => {
  const files: Record<string, Content> = {};
  for (let folder = 0; folder < 20; folder++) {
    files[`d${folder}`] = null;
    for (let file = 0; file < count / 20; file++) files[`d${folder}/${LONG}${file}`] = `${file}`;
  }
  return listed(files);
};

/** `SVC_TEST_SEEDS=100` tries more. */
const SEEDS = Number(Deno.env.get("SVC_TEST_SEEDS") ?? 1);

for (let seed = 1; seed <= SEEDS; seed++) {
  test(`after any change the kept tree is the folder (${seed})`, async (at) => {
    const random = randomOf(seed);
    const caller = new Caller(many(300));
    await matches(at, caller);
    for (let round = 0; round < 20; round++) {
      const changes = random(4) === 0 ? 40 : random(4);
      for (let count = 0; count < changes; count++) change(caller, random);
      // Now and then by a server that has only the state.
      const by = random(5) === 0 ? new At(at.root, await KeptContexts.open(at.root, LAZY)) : at;
      const key = await matches(by, caller);
      if (by !== at) at = by;
      // A caller of whom nothing is kept has the same.
      const other = new Caller(caller.files);
      other.identity = `fresh ${round}`;
      other.stamps = caller.stamps;
      if (round % 5 === 0) assert.equal(await matches(at, other), key);
    }
    assert.ok(caller.same.length >= 19);
  });
}

test("of one changed file a part of the listing is told; of none, nothing", async (at) => {
  const caller = new Caller(many(1000));
  const file = `d3/${LONG}7`;
  const few = () => {
    assert.ok(caller.told > 0 && caller.told < 200, `${caller.told} entries`);
    caller.told = 0;
  };
  await at.build(caller, file);
  caller.change(file, "changed");
  assert.deepEqual(await at.build(caller, file), { [file]: "changed" });
  few();
  await at.build(caller, file);
  assert.equal(caller.told, 0);
  // What went is told by what stands around it.
  delete caller.files[file];
  await using tree = await at.kept.use(caller, { signal: at.signal });
  assert.deepEqual(select(tree, file, false), []);
  few();
});

test("a caller that does not know the question is asked for everything", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a");
  Object.assign(caller, { changes: undefined });
  caller.change("a/two", "other");
  assert.deepEqual(await at.build(caller, "a/two"), { "a/two": "other" });
});

test("parts that nobody knows, twice, or in the wrong place are refused", async (at) => {
  const parts = (first: unknown, count: unknown) => ({ same: [first, count] }) as SameParts;
  const folders = Object.fromEntries(
    Array.from({ length: 200 }, (_, number) => [`f${LONG}${number}`, null]),
  );
  const content: Record<string, Content> = { a: null, ...folders, z: null };
  for (let file = 0; file < 200; file++) content[`z/${LONG}${file}`] = "";
  const caller = new Caller(content);
  const entry = (path: string, content: Content) => caller.entry(path, content);
  const answers: unknown[][] = [
    [parts(0, 100)],
    [parts(100, 1)],
    [parts(-1, 1)],
    [parts(0, 0)],
    [parts(0.5, 1)],
    [parts("0", 1)],
    [{ same: 7 }],
    [parts(0, 1), parts(0, 1)],
    // The folder that they are in is not there, or is none.
    [parts(4, 1)],
    [entry("z", "a file"), parts(4, 1)],
    [parts(0, 2), entry("a", "again")],
  ];
  for (const answer of answers) {
    await at.build(caller, "a");
    const hostile = new Caller(content);
    let length = 0;
    hostile.changes = async function* (known) {
      length = known.length;
      yield answer as RemoteEntry[];
    };
    await assert.rejects(
      at.kept.use(hostile, { signal: at.signal }),
      { code: "context_invalid" },
      JSON.stringify(answer),
    );
    assert.ok(length > 4, `${length} parts`);
    // Nothing of what was refused is kept.
    assert.deepEqual(await at.kept.items(), []);
  }
});

test("more after everything was the same is refused", async (at) => {
  const caller = new Caller(files());
  await at.build(caller, "a");
  caller.changes = async function* (parts) {
    yield [{ same: [0, parts.length] }, caller.entry("new", "text")];
  };
  await assert.rejects(at.build(caller, "a"), { code: "context_invalid" });
});

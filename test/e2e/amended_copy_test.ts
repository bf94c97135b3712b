/**
 * COPY of a folder that was copied before: what has changed is copied, and the result is that of copying all.
 * `SVC_TEST_SEEDS=100` tries more changes.
 */
import assert from "node:assert/strict";
import { DOCKERFILE, test, type World } from "./amended_copy.ts";
import { EARLY, type Entry, Table } from "../contract/caller_table.ts";

const SEEDS = Number(Deno.env.get("SVC_TEST_SEEDS") ?? 1);
/** Changes with each seed. */
const ROUNDS = 8;

test("one changed file", async (world) => {
  await world.build(DOCKERFILE);
  assert.equal(world.amended, 0);
  world.table.set("src/d7/f7", { text: "changed\n", mtime: EARLY + 5000 });
  await world.same(DOCKERFILE);
  assert.equal(world.amended, 1);
  // The next one begins with the whole copy again, not with the amended one.
  world.table.set("src/d8/f8", { text: "changed too\n", mtime: EARLY + 6000 });
  await world.same(DOCKERFILE);
  assert.equal(world.amended, 2);
  let parents = 0;
  for await (const { name, names, parent } of world.engine.snapshotter.list()) {
    if (parent === undefined || name !== names?.[0]) continue;
    const grandparent = (await world.engine.snapshotter.stat(parent))?.parent;
    if (grandparent?.startsWith("build-")) parents++;
  }
  assert.equal(parents, 2);
  const { kinds } = await world.engine.builder.cache!.usage();
  assert.equal(kinds.copiedFolders.count, 1);
  assert.ok(kinds.copiedFolders.bytes > 10_000, "its list is counted");
});

test("the layer of an amended copy is the whole copy's, byte for byte", async (world) => {
  await world.build(DOCKERFILE);
  world.table.set("src/d7/f7", { text: "changed\n", mtime: EARLY + 5000 });
  const options = { reproducible: true };
  assert.deepEqual(await world.build(DOCKERFILE, options), await world.whole(DOCKERFILE, options));
  assert.equal(world.amended, 1);
});

test("an amended COPY that most has changed of is copied whole, and amended from then on", async (world) => {
  await world.build(DOCKERFILE);
  for (const path of world.table.paths("file").slice(0, 100)) {
    world.table.set(path, { text: "new" });
  }
  await world.same(DOCKERFILE);
  assert.equal(world.amended, 0);
  world.table.set("src/d3/f3", { text: "newer still" });
  await world.same(DOCKERFILE);
  assert.equal(world.amended, 1);
});

test("what the base has shows again where the copied file is gone", async (world) => {
  const dockerfile = "FROM base\nCOPY base /app/src\nCOPY src /app/src\n";
  world.table.set("base/d5/f5", { text: "of the base", mtime: EARLY });
  world.table.set("base/d6/f6", { text: "of the base, hidden", mtime: EARLY });
  await world.build(dockerfile);
  world.table.remove("src/d5/f5");
  await world.same(dockerfile);
  world.table.remove("src/d1/f1");
  world.table.set("src/d6/f6", { text: "changed" });
  const before = world.amended;
  await world.same(dockerfile);
  assert.equal(world.amended, before + 1);
});

test("a folder that is gone, damaged or of another server's time is copied whole", async (world) => {
  const listings = `${world.engine.folder}/build/cache/copied`;
  const change = async (text: string, amended: number) => {
    world.table.set("src/d2/f2", { text });
    const before = world.amended;
    await world.same(DOCKERFILE);
    assert.equal(world.amended - before, amended, text);
  };
  const damage = async (how: (text: string) => string) => {
    const [{ name }] = [...Deno.readDirSync(listings)];
    await Deno.writeTextFile(
      `${listings}/${name}`,
      how(await Deno.readTextFile(`${listings}/${name}`)),
    );
  };
  await world.build(DOCKERFILE);
  await change("one", 1);
  await damage((text) => text.slice(0, 1000));
  await change("two", 0);
  await change("three", 1);
  await damage(() => "{}");
  await change("four", 0);
  // A file that the snapshot does not have, and that is not in the folder.
  await damage((text) => text.replace("d4/f4", "d4/fX"));
  await change("five", 1);
  await change("six", 1);
  await damage((text) => text.replace(/build-[-0-9a-f]+/, "build-none"));
  await change("seven", 0);
});

test("a pattern that names nothing, one file, several folders: as ever", async (world) => {
  world.table.set("other/file", { type: "file", text: "other" });
  for (const sources of ["none* src", "src/d1/f1", "src other", "s?c", "none*"]) {
    await world.same(`FROM base\nWORKDIR /app\nCOPY ${sources} x/\n`);
  }
  assert.equal(world.amended, 0);
});

test("an owner's name is the base's, whatever the folder brings along", async (world) => {
  const passwd = (id: number) => `root:x:0:0::/:/bin/sh\napp:x:${id}:${id}::/:/bin/sh\n`;
  world.table.set("base/etc/passwd", { type: "file", text: passwd(40) });
  world.table.set("src/etc/passwd", { type: "file", text: passwd(50) });
  const dockerfile = "FROM base\nWORKDIR /app\nCOPY base /\nCOPY --chown=app src /\n";
  await world.build(dockerfile);
  world.table.set("src/d3/f3", { text: "changed" });
  await world.same(dockerfile);
  assert.equal(world.amended, 1);
});

test("builds at once each make their own of it", async (world) => {
  await world.build(DOCKERFILE);
  const tables = [1, 2, 3, 4].map((n) => {
    const table = new Table();
    table.identity = `me:/copy${n}`;
    for (const [path, entry] of world.table.entriesByPath) table.set(path, entry);
    table.set("src/d9/f9", { text: `of build ${n}` });
    return table;
  });
  const layers = await Promise.all(
    tables.map((tree) =>
      world.build(DOCKERFILE, {
        reproducible: true,
        context: { tree, dockerfile: DOCKERFILE, ignore: "", received: () => 0 },
        tags: [`result-${tree.identity.at(-1)}`],
      })
    ),
  );
  assert.equal(world.amended, 4);
  for (const [index, tree] of tables.entries()) {
    const whole = await world.whole(DOCKERFILE, {
      reproducible: true,
      context: { tree, dockerfile: DOCKERFILE, ignore: "", received: () => 0 },
    });
    assert.deepEqual(layers[index], whole);
  }
});

function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

/** A few changes of any kind to what is in src. */
function mutate(table: Table, random: (below: number) => number): void {
  const one = (paths: string[]) => paths[random(paths.length)];
  const inside = (type: Entry["type"]) =>
    table.paths(type).filter((path) => path.startsWith("src/"));
  const mtime = () => EARLY + random(20_000);
  const text = () => "x".repeat(random(3)) + random(1000);
  const changes: (() => void)[] = [
    () => table.set(one(inside("file")), { text: text(), mtime: mtime() }),
    () => table.set(one(inside("file")), { mode: [0o600, 0o755, 0o4755, 0o444][random(4)] }),
    () => table.set(one(inside("file")), { mtime: mtime() }),
    () => table.set(one(inside("directory")), { mtime: mtime() }),
    () => table.set(one(inside("directory")), { mode: [0o700, 0o1777, 0o755][random(3)] }),
    () => table.set(`${one(inside("directory"))}/new${random(9)}`, { type: "file", text: text() }),
    () => table.set(`src/fresh${random(5)}/deep/n${random(5)}`, { type: "file", mtime: mtime() }),
    () => table.set(`src/top${random(4)}`, { type: "file", text: text(), mtime: mtime() }),
    () => table.set(`src/empty${random(3)}`, { type: "directory", mtime: mtime() }),
    () => table.set(`src/d1/link${random(3)}`, { type: "symlink", link: text(), mtime: mtime() }),
    () => table.remove(one(inside("file"))),
    () => table.remove(one(inside("directory"))),
    () => {
      const path = one(inside("file"));
      table.remove(path);
      const type = (["symlink", "directory", "file"] as const)[random(3)];
      table.set(path, { type, link: type === "symlink" ? "elsewhere" : undefined });
    },
    () => {
      const path = one(inside("directory"));
      table.remove(path);
      table.set(path, { type: "file", text: text() });
    },
    () => table.set("src", { mtime: mtime() }),
  ];
  for (let n = random(4); n >= 0; n--) changes[random(changes.length)]();
}

const KINDS: Record<string, string> = {
  "into a new folder": DOCKERFILE,
  "onto nothing": "FROM scratch\nCOPY src /app/src\n",
  "into a folder that is there": "FROM base\nWORKDIR /app\nCOPY src .\n",
  "the whole context, into the root": "FROM base\nWORKDIR /app\nCOPY . /\n",
  "over files of the base":
    "FROM base\nCOPY base /app/src\nCOPY --exclude=d3 --exclude=**/f1? src /app/src\n",
  "by a link, with owner and mode": `FROM base
RUN mkdir -p /app/real && ln -s ../app/real /app/link
COPY --chown=12:34 --chmod=u=rwX,go=rX src /app/link/below/here
`,
};

async function tried(world: World, seed: number, dockerfile: string): Promise<void> {
  const random = randomOf(seed);
  world.table.set("base/d5/f5", { text: "of the base" });
  world.table.set("base/d9/hidden", { text: "of the base", mtime: EARLY + 12_000 });
  await world.build(dockerfile);
  for (let round = 0; round < ROUNDS; round++) {
    mutate(world.table, random);
    // Times alone make no other key.
    const files = world.table.paths("file").filter((path) => /^src\/d[^3].*\/f2..?$/.test(path));
    world.table.set(files[random(files.length)], { text: `round ${round}` });
    await world.same(dockerfile);
  }
  assert.ok(world.amended >= ROUNDS / 4, `${world.amended} of ${ROUNDS}`);
}

for (let seed = 1; seed <= SEEDS; seed++) {
  for (const [name, kind] of Object.entries(KINDS)) {
    const title = `any changes give the same as copying all: ${name}, seed ${seed}`;
    test(title, (world) => tried(world, seed, kind));
  }
}

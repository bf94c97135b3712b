/** COPY of a folder that was copied before: what has changed is copied, and the result is that of copying all. */
import assert from "node:assert/strict";
import { DOCKERFILE, test } from "./amended_copy.ts";
import { EARLY, Table } from "./caller_table.ts";

test("one changed file", async (world) => {
  await world.build(DOCKERFILE);
  assert.equal(world.amended, 0);
  world.table.set("src/d7/f7", { text: "changed\n", mtime: (EARLY + 5000) * 1000 });
  await world.same(DOCKERFILE);
  assert.equal(world.amended, 1);
  // The next one begins with the whole copy again, not with the amended one.
  world.table.set("src/d8/f8", { text: "changed too\n", mtime: (EARLY + 6000) * 1000 });
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
  world.table.set("base/d5/f5", { text: "of the base", mtime: EARLY * 1000 });
  world.table.set("base/d6/f6", { text: "of the base, hidden", mtime: EARLY * 1000 });
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
        context: { tree, dockerfile: DOCKERFILE, ignore: "", received: () => 0 },
        tags: [`result-${tree.identity.at(-1)}`],
      })
    ),
  );
  assert.equal(world.amended, 4);
  for (const [index, tree] of tables.entries()) {
    const whole = await world.whole(DOCKERFILE, {
      context: { tree, dockerfile: DOCKERFILE, ignore: "", received: () => 0 },
    });
    assert.deepEqual(layers[index], whole);
  }
});

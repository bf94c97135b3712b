import { deepEqual, equal, rejects } from "node:assert/strict";
import { join } from "node:path";
import { ensureDir, exists, readJson, removeTree, writeFileAtomic, writeFileLazily } from "./fs.ts";

async function folder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir();
  return { path, [Symbol.asyncDispose]: () => removeTree(path) };
}

for (const write of [writeFileAtomic, writeFileLazily]) {
  Deno.test(`${write.name}: replaces whole, leaves nothing beside, keeps the old file on failure`, async () => {
    await using dir = await folder();
    const path = join(dir.path, "a.json");
    await write(path, '{"n":"first"}');
    await Promise.all(Array.from({ length: 20 }, (_, n) => write(path, JSON.stringify({ n }))));
    const read = await readJson<{ n: number }>(path);
    equal(typeof read?.n, "number");
    deepEqual([...Deno.readDirSync(dir.path)].map((e) => e.name), ["a.json"]);
    await Deno.mkdir(join(dir.path, "folder"));
    await rejects(write(join(dir.path, "folder"), "x"));
    deepEqual([...Deno.readDirSync(dir.path)].map((e) => e.name).sort(), ["a.json", "folder"]);
  });
}

Deno.test("writeFileAtomic: gives the mode that is asked for", async () => {
  await using dir = await folder();
  const path = join(dir.path, "secret");
  await writeFileAtomic(path, "x", { mode: 0o600 });
  equal((await Deno.stat(path)).mode! & 0o777, 0o600);
});

Deno.test("ensureDir makes parents, exists and readJson tell what is missing", async () => {
  await using dir = await folder();
  const deep = join(dir.path, "a/b/c");
  await Promise.all([ensureDir(deep), ensureDir(deep), ensureDir(join(dir.path, "a/b/d"))]);
  equal(await exists(deep), true);
  equal(await exists(join(deep, "none")), false);
  equal(await readJson(join(deep, "none")), undefined);
  await removeTree(join(dir.path, "nothing"));
});

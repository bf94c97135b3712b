import { deepEqual, equal, rejects, throws } from "node:assert/strict";
import { join } from "node:path";
import {
  ensureDir,
  exists,
  ifThere,
  namesIn,
  readJson,
  removeTree,
  writeFileAtomic,
  writeJsonInPlace,
} from "./fs.ts";

async function folder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir();
  return { path, [Symbol.asyncDispose]: () => removeTree(path) };
}

Deno.test("writeFileAtomic: replaces whole, leaves nothing beside, keeps the old file on failure", async () => {
  await using dir = await folder();
  const path = join(dir.path, "a.json");
  await writeFileAtomic(path, '{"n":1}', { mode: 0o600 });
  equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  await Promise.all(
    Array.from({ length: 20 }, (_, n) => writeFileAtomic(path, JSON.stringify({ n }))),
  );
  const read = await readJson<{ n: number }>(path);
  equal(typeof read?.n, "number");
  deepEqual([...Deno.readDirSync(dir.path)].map((e) => e.name), ["a.json"]);
  await Deno.mkdir(join(dir.path, "folder"));
  await rejects(writeFileAtomic(join(dir.path, "folder"), "x"));
  deepEqual([...Deno.readDirSync(dir.path)].map((e) => e.name).sort(), ["a.json", "folder"]);
});

Deno.test("writeJsonInPlace: longer and shorter documents, and what was cut off", async () => {
  await using dir = await folder();
  const path = join(dir.path, "a.json");
  for (const value of [{ n: 1 }, { n: "longer" }, { n: 2, ü: "€" }, [], "x".repeat(10_000), null]) {
    writeJsonInPlace(path, value);
    deepEqual(await readJson(path), value);
  }
  await Deno.writeTextFile(path, '{"n":');
  writeJsonInPlace(path, 1);
  equal(await readJson(path), 1);
  await Deno.remove(path);
  await Deno.mkdir(path);
  throws(() => writeJsonInPlace(path, 1));
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

Deno.test({
  name: "removeUnpacked: folders that an archive closed to their owner",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using dir = await folder();
    const deep = join(dir.path, "root/read-only");
    await ensureDir(deep);
    await Deno.writeTextFile(join(deep, "file"), "");
    await Deno.chmod(deep, 0o555);
    await Deno.chmod(join(dir.path, "root"), 0);
    const module = new URL("./fs.ts", import.meta.url).href;
    const code = `import { removeUnpacked } from ${JSON.stringify(module)};
      await removeUnpacked(${JSON.stringify(join(dir.path, "root"))});`;
    const words = [Deno.execPath(), "eval", "--no-config", code];
    // Root is an owner like others without these.
    if (Deno.uid() === 0) words.unshift("setpriv", "--bounding-set=-dac_override,-dac_read_search");
    const { success, stderr } = await new Deno.Command(words[0], { args: words.slice(1) }).output();
    equal(success, true, new TextDecoder().decode(stderr));
    equal(await exists(join(dir.path, "root")), false);
  },
});

Deno.test("ifThere and namesIn: nothing where there is nothing, other failures as they are", async () => {
  await using dir = await folder();
  for (const name of ["b", "a"]) await Deno.writeTextFile(join(dir.path, name), name);
  deepEqual(await namesIn(dir.path), ["a", "b"]);
  deepEqual(await namesIn(join(dir.path, "none")), []);
  await rejects(namesIn(join(dir.path, "a")), Deno.errors.NotADirectory);
  equal(await ifThere(Deno.readTextFile(join(dir.path, "a"))), "a");
  equal(await ifThere(Deno.readTextFile(join(dir.path, "none"))), undefined);
});

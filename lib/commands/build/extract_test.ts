import assert from "node:assert/strict";
import { type TarFields, writeTar } from "../../oci/tar_write.ts";
import { extractArchive } from "./extract.ts";

type Entries = (TarFields & { body?: Uint8Array })[];

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-extract-" });
  try {
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const text = (content: string) => new TextEncoder().encode(content);
const archive = (entries: Entries) => writeTar(entries);

Deno.test("an archive becomes files, folders and links with modes and times; what is there is replaced", () =>
  inFolder(async (folder) => {
    const entries = () =>
      archive([
        { path: "d", type: "directory", mode: 0o700, mtime: 1000 },
        { path: "d/f", type: "file", mode: 0o640, mtime: 2000, body: text("one") },
        { path: "d/l", type: "symlink", linkpath: "f" },
        { path: "h", type: "hardlink", linkpath: "d/f" },
        { path: "null", type: "char", devMajor: 1, devMinor: 3 },
        { path: "deep/er/f", type: "file", body: text("two") },
      ]);
    for (let round = 0; round < 2; round++) {
      const result = await extractArchive(entries(), `${folder}/out`);
      assert.deepEqual(result, { files: 2, bytes: 6, skipped: 1 });
    }
    assert.equal(await Deno.readTextFile(`${folder}/out/h`), "one");
    assert.equal(await Deno.readLink(`${folder}/out/d/l`), "f");
    const [file, directory] = [`${folder}/out/d/f`, `${folder}/out/d`].map((p) => Deno.statSync(p));
    assert.deepEqual([file.mode! & 0o777, directory.mode! & 0o777], [0o640, 0o700]);
    assert.deepEqual([file.mtime!.getTime(), directory.mtime!.getTime()], [2_000_000, 1_000_000]);
  }));

Deno.test("nothing is written outside of the folder, nor through links", () =>
  inFolder(async (folder) => {
    await Deno.mkdir(`${folder}/outside`);
    const file = (path: string): Entries[0] => ({ path, type: "file", body: text("x") });
    const link = (path: string, linkpath: string): Entries[0] => ({
      path,
      type: "symlink",
      linkpath,
    });
    const hard = (path: string, linkpath: string): Entries[0] => ({
      path,
      type: "hardlink",
      linkpath,
    });
    await Deno.writeTextFile(`${folder}/outside/secret`, "s");
    for (
      const entries of [
        [file("../escaped")],
        [file("a/../../escaped")],
        [link("l", "../outside"), file("l/escaped")],
        [link("l", `${folder}/outside`), file("l/escaped")],
        [hard("h", "../outside/secret")],
        [link("l", "../outside"), hard("h", "l/secret")],
        [file("a"), file("a/b")],
      ]
    ) {
      await assert.rejects(
        extractArchive(archive(entries), `${folder}/out`),
        { code: "archive_invalid" },
      );
      await Deno.remove(`${folder}/out`, { recursive: true });
    }
    assert.deepEqual([...Deno.readDirSync(folder)].map(({ name }) => name), ["outside"]);
    assert.deepEqual([...Deno.readDirSync(`${folder}/outside`)].map(({ name }) => name), [
      "secret",
    ]);
  }));

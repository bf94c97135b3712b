import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { type TarFields, writeTar } from "../../oci/tar_write.ts";
import { lstat } from "../../sys/files.ts";
import { parseChmod } from "./chmod.ts";
import { copySelections } from "./copy.ts";
import { receiveContext } from "./receive.ts";
import { copyOffLoop } from "./worker_client.ts";
import { locate } from "../../sys/rooted.ts";
import { match, select } from "./tree.ts";
import { contentKey, latestTime } from "./tree_keys.ts";

type Item = TarFields & { text?: string };

async function archive(items: Item[]): Promise<Uint8Array<ArrayBuffer>> {
  const stream = writeTar(items.map(({ text, ...fields }) => {
    const body = new TextEncoder().encode(text ?? "");
    const mode = fields.type === "directory" ? 0o755 : 0o644;
    return { mode, ...fields, size: body.length, ...(text !== undefined && { body }) };
  }));
  return await new Response(stream as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
}

const stream = (bytes: Uint8Array<ArrayBuffer>) => new Blob([bytes]).stream();
const file = (path: string, text = path, extra: Partial<Item> = {}): Item => ({
  path,
  type: "file",
  text,
  mtime: 1000,
  ...extra,
});

async function inTemporary(work: (directory: string) => Promise<void>) {
  const directory = await Deno.makeTempDir({ prefix: "svc-context-" });
  try {
    await work(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

const receive = (directory: string, bytes: Uint8Array<ArrayBuffer>) =>
  receiveContext(stream(bytes), { directory: `${directory}/c`, dockerfile: "Dockerfile" });

Deno.test("a context is unpacked, hashed, and its .dockerignore applied", () =>
  inTemporary(async (directory) => {
    const items = [
      file("Dockerfile", "FROM scratch\n"),
      file(".dockerignore", "Dockerfile\n*.log\nsecret\n!secret/open\n"),
      { path: "sub", type: "directory", mtime: 500 } as Item,
      file("sub/a", "abc", { mode: 0o755 }),
      { path: "link", type: "symlink", linkpath: "sub/a" } as Item,
      { path: "hard", type: "hardlink", linkpath: "sub/a" } as Item,
      file("x.log"),
      file("secret/key"),
      file("secret/open"),
    ];
    for (const bytes of [await archive(items), new Uint8Array(gzipSync(await archive(items)))]) {
      await using context = await receive(directory, bytes);
      const { root, digests } = context.tree;
      assert.equal(context.dockerfile, "FROM scratch\n");
      assert.deepEqual(
        [...digests!.keys()].sort(),
        [".dockerignore", "hard", "secret/open", "sub/a"],
      );
      assert.deepEqual(match(context.tree, "*"), [
        ".dockerignore",
        "hard",
        "link",
        "secret",
        "sub",
      ]);
      assert.deepEqual(match(context.tree, "**/a"), ["sub/a"]);
      assert.equal(lstat(`${root}/sub`).mtime, 500);
      assert.equal(lstat(`${root}/sub/a`).mode & 0o7777, 0o755);
      assert.equal(lstat(`${root}/sub/a`).mtime, 1000);
    }
    await assert.rejects(Deno.stat(`${directory}/c`), Deno.errors.NotFound);
  }));

Deno.test("archives that lead out of the context are refused and leave nothing", () =>
  inTemporary(async (directory) => {
    const bad: [string, Item[]][] = [
      ["context_invalid", [file("../evil")]],
      ["context_invalid", [file("/etc/evil")]],
      ["context_invalid", [{ path: "null", type: "char", devMajor: 1, devMinor: 3 }]],
      ["context_invalid", [{ path: "hard", type: "hardlink", linkpath: "missing" }]],
      ["context_invalid", [file("n".repeat(256))]],
      ["context_invalid", [file(`${"\u00e9".repeat(128)}/file`)]],
      ["context_invalid", [file("d/".repeat(256) + "file")]],
    ];
    for (const [code, items] of bad) {
      await assert.rejects(receive(directory, await archive(items)), { code });
      await assert.rejects(Deno.stat(`${directory}/c`), Deno.errors.NotFound);
    }
    await assert.rejects(receive(directory, new Uint8Array()), { code: "context_invalid" });
    await assert.rejects(
      receive(directory, (await archive([file("a", "x".repeat(2000))])).slice(0, 900)),
      {
        code: "archive_invalid",
      },
    );
    await using deep = await receive(directory, await archive([file("d/".repeat(255) + "file")]));
    assert.equal(deep.tree.digests!.size, 1);
    await deep[Symbol.asyncDispose]();
    await Deno.mkdir(`${directory}/outside`);
    await using context = await receive(
      directory,
      await archive([
        { path: "up", type: "symlink", linkpath: `${directory}/outside` },
        file("up/evil"),
      ]),
    );
    assert.deepEqual([...Deno.readDirSync(`${directory}/outside`)], []);
    assert.ok(context.tree.digests!.size === 1);
  }));

Deno.test("a compression that contexts may not have is named", () =>
  inTemporary(async (directory) => {
    for (const [name, magic] of [["bzip2", "BZh91AY"], ["xz", "\xfd7zXZ\0"]]) {
      const bytes = Uint8Array.from(magic.padEnd(900, "x"), (char) => char.charCodeAt(0));
      await assert.rejects(receive(directory, bytes), {
        code: "context_invalid",
        message: `Cannot read the build context: it is compressed with ${name}`,
      });
      assert.deepEqual([...Deno.readDirSync(directory)], []);
    }
  }));

Deno.test("a compressed archive that comes in small pieces is unpacked by a Worker", () =>
  inTemporary(async (directory) => {
    // Nothing in it compresses: each piece gives one of about its size.
    const random = new Uint8Array(3 << 20);
    for (let at = 0; at < random.length; at += 65536) {
      crypto.getRandomValues(random.subarray(at, at + 65536));
    }
    const entry: TarFields = { path: "random", type: "file", size: random.length, mode: 0o644 };
    const tar = await new Response(writeTar([{ ...entry, body: random }])).bytes();
    const bytes = new Uint8Array(gzipSync(tar));
    const pieces = function* () {
      for (let at = 0; at < bytes.length; at += 65536) yield bytes.slice(at, at + 65536);
    };
    const options = { directory: `${directory}/c`, dockerfile: "Dockerfile" };
    await using context = await receiveContext(ReadableStream.from(pieces()), options);
    assert.deepEqual(await Deno.readFile(`${context.tree.root}/random`), random);
  }));

Deno.test("a small archive that unpacks to more than the limit is refused and leaves nothing", () =>
  inTemporary(async (directory) => {
    const options = { directory: `${directory}/c`, dockerfile: "Dockerfile", maxBytes: 1 << 20 };
    const zeros = new Uint8Array(gzipSync(await archive([file("zeros", "0".repeat(8 << 20))])));
    await assert.rejects(
      receiveContext(stream(zeros), { ...options, maxBytes: undefined, maxUnpackedBytes: 1 << 20 }),
      { code: "too_large", help: /SVC_MAX_BUILD_UNPACKED_BYTES/ },
    );
    for (const size of [1 << 20, 8 << 20]) {
      const bomb = new Uint8Array(gzipSync(await archive([file("zeros", "0".repeat(size))])));
      await assert.rejects(receiveContext(stream(bomb), options), { code: "too_large" });
      await assert.rejects(Deno.stat(`${directory}/c`), Deno.errors.NotFound);
    }
    const fits = new Uint8Array(gzipSync(await archive([file("zeros", "0".repeat(1 << 19))])));
    await using context = await receiveContext(stream(fits), options);
    assert.equal(context.tree.digests!.size, 1);
  }));

/** A file that is a hole but for its end, in GNU's old form. */
async function sparse(path: string, hole: number, text: string) {
  const bytes = await archive([file(path, text)]);
  const number = (at: number, value: number) =>
    bytes.set(new TextEncoder().encode(value.toString(8).padStart(11, "0")), at);
  bytes[156] = "S".charCodeAt(0);
  number(386, hole);
  number(398, text.length);
  number(483, hole + text.length);
  bytes.fill(0x20, 148, 156);
  const sum = bytes.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  bytes.set(new TextEncoder().encode(sum.toString(8).padStart(6, "0") + "\0 "), 148);
  return bytes;
}

Deno.test("nobody waits for the digest of a huge hole until it is asked for", () =>
  inTemporary(async (directory) => {
    await using context = await receive(directory, await sparse("hole", 7 * 2 ** 30, "end"));
    const { size, blocks } = await Deno.stat(`${context.tree.root}/hole`);
    assert.equal(size, 7 * 2 ** 30 + 3);
    assert.ok(blocks! < 1024);
    assert.deepEqual([...context.tree.digests!], []);
    await using small = await receive(`${directory}/small`, await sparse("hole", 1 << 20, "end"));
    assert.equal(small.tree.digests!.get("hole")?.length, 64);
  }));

Deno.test("content keys know content, modes and names, not times", () =>
  inTemporary(async (directory) => {
    const look = async (items: Item[]) => {
      await using context = await receive(directory, await archive(items));
      const selections = select(context.tree, "d", false);
      return [
        await contentKey(context.tree, selections),
        await latestTime(context.tree, selections),
      ];
    };
    const [base, time] = await look([file("d/a"), file("d/b")]);
    assert.equal(time, 1000);
    const newer = [file("d/b"), file("d/a", "d/a", { mtime: 2000 })];
    assert.deepEqual(await look(newer), [base, 2000]);
    const others: Item[][] = [
      [file("d/a", "other"), file("d/b")],
      [file("d/a"), file("d/c", "d/b")],
      [file("d/a", "d/a", { mode: 0o755 }), file("d/b")],
      [file("d/a"), file("d/b"), { path: "d/l", type: "symlink", linkpath: "a" }],
    ];
    for (const items of others) assert.notEqual((await look(items))[0], base);
  }));

Deno.test("COPY: folders by content, files by name, links confined to the root", () =>
  inTemporary(async (directory) => {
    await using context = await receive(
      directory,
      await archive([
        file("one.txt", "1"),
        file("two.txt", "2"),
        { path: "d", type: "directory", mode: 0o750 },
        file("d/x", "x"),
        { path: "d/e", type: "directory", mode: 0o700 },
        file("d/e/y", "y"),
        { path: "d/l", type: "symlink", linkpath: "x" },
      ]),
    );
    const root = `${directory}/root`;
    await Deno.mkdir(`${root}/real`, { recursive: true });
    await Deno.mkdir(`${directory}/outside`);
    await Deno.symlink("/real", `${root}/linked`);
    await Deno.symlink(`../../../..${directory}/outside`, `${root}/out`);
    const copy = (pattern: string, destination: string, extra = {}) => {
      const selections = select(context.tree, pattern, "parents" in extra);
      return copySelections(context.tree, selections, {
        root,
        destination,
        ...extra,
      });
    };
    const text = (path: string) => Deno.readTextFileSync(`${root}/${path}`);
    await copy("d", "/app");
    assert.equal(text("app/x") + text("app/e/y"), "xy");
    assert.equal(Deno.readLinkSync(`${root}/app/l`), "x");
    assert.equal(lstat(`${root}/app`).mode & 0o7777, 0o755, "a destination is made as usual");
    assert.equal(lstat(`${root}/app/e`).mode & 0o7777, 0o700);
    await Deno.chmod(`${root}/app`, 0o711);
    await Deno.chmod(`${root}/app/e`, 0o777);
    await copy("d", "/app");
    assert.equal(lstat(`${root}/app`).mode & 0o7777, 0o711, "a destination keeps its own");
    assert.equal(lstat(`${root}/app/e`).mode & 0o7777, 0o700, "folders below are as in the source");
    await copy("one.txt", "/app/");
    assert.equal(text("app/one.txt"), "1");
    await copy("one.txt", "/new/deep/name");
    assert.equal(text("new/deep/name"), "1");
    await copy("*.txt", "/linked/");
    assert.equal(text("real/one.txt") + text("real/two.txt"), "12");
    await copy("d", "/out/");
    assert.deepEqual([...Deno.readDirSync(`${directory}/outside`)], []);
    assert.equal(text(`${directory}/outside/x`), "x");
    await copy("*.txt", "/nowhere");
    assert.equal(text("nowhere"), "2", "the last of several is what a name without a slash gets");
    await assert.rejects(copy("d", "/app/x"), { code: "build_failed" });
    await assert.rejects(copy("one.txt", "/app/x/"), { code: "build_failed" });
    await copy("d/e/y", "/p", { parents: true });
    assert.equal(text("p/d/e/y"), "y");
    await copy("one.txt", "/modes/", { chmod: "u=rwx,go=r" });
    assert.equal(lstat(`${root}/modes/one.txt`).mode & 0o7777, 0o744);
    assert.equal(lstat(`${root}/modes/one.txt`).mtime, 1000);
    assert.equal(locate(root, "/linked/../linked/one.txt").inside, "real/one.txt");
  }));

Deno.test("COPY: a later source lies over what an earlier one made", () =>
  inTemporary(async (directory) => {
    const [tree, root] = [`${directory}/tree`, `${directory}/root`];
    for (
      const [name, text] of [["a/s/x", "ax"], ["a/s/y", "ay"], ["b/s/x", "bx"], ["b/s/t/z", "bz"]]
    ) {
      await Deno.mkdir(`${tree}/${name}`.replace(/\/[^/]*$/, ""), { recursive: true });
      await Deno.writeTextFile(`${tree}/${name}`, text);
    }
    await Deno.mkdir(root);
    const from = { root: tree, ownersKept: true };
    const selections = ["a", "b"].flatMap((name) => select(from, name, false));
    for (const link of [false, true]) {
      await copySelections(from, selections, { root, destination: "/to/", link });
      const text = (path: string) => Deno.readTextFileSync(`${root}/to/s/${path}`);
      assert.deepEqual(["x", "y", "t/z"].map(text), ["bx", "ay", "bz"]);
    }
  }));

Deno.test("--chmod in octal and in letters", () => {
  assert.equal(parseChmod("755")(0o600, false), 0o755);
  assert.equal(parseChmod("go-w,u+x")(0o666, false), 0o744);
  assert.equal(parseChmod("a+X")(0o644, false), 0o644);
  assert.equal(parseChmod("a+X")(0o644, true), 0o755);
  assert.throws(() => parseChmod("rwx"), { code: "dockerfile_invalid" });
  assert.throws(() => parseChmod("99999"), { code: "dockerfile_invalid" });
});

Deno.test("much is unpacked and copied by a Worker, with the same result", () =>
  inTemporary(async (directory) => {
    const big = "x".repeat(3 << 20);
    const items = [
      file("Dockerfile", "FROM scratch\n"),
      file(".dockerignore", "*.log\n"),
      file("big", big),
      file("x.log"),
      ...Array.from({ length: 300 }, (_, i) => file(`many/${i}`, `${i}`)),
    ];
    const bytes = await archive(items);
    await using context = await receive(directory, bytes);
    assert.equal(context.dockerfile, "FROM scratch\n");
    assert.equal(context.tree.digests!.size, 303);
    const root = `${directory}/root`;
    await Deno.mkdir(root);
    const copy = (destination: string, signal?: AbortSignal) =>
      copyOffLoop(context.tree, select(context.tree, ".", false), {
        root,
        destination,
        chmod: "600",
        exclude: ["many/1*"],
        signal,
      });
    await copy("/all");
    assert.equal(Deno.readTextFileSync(`${root}/all/big`), big);
    assert.equal(lstat(`${root}/all/many/299`).mode & 0o7777, 0o600);
    assert.throws(() => lstat(`${root}/all/many/12`));
    await Deno.writeTextFile(`${root}/file`, "");
    await assert.rejects(copy("/file"), { code: "build_failed" });
    await assert.rejects(copy("/other", AbortSignal.abort()), { name: "AbortError" });
    await assert.rejects(
      receiveContext(stream(bytes.slice(0, bytes.length - 300_000)), {
        directory: `${directory}/cut`,
        dockerfile: "Dockerfile",
      }),
      { code: "archive_invalid" },
    );
    const cancel = new AbortController();
    const parts = [bytes.slice(0, 2 << 20), bytes.slice(2 << 20)];
    const slow = new ReadableStream<Uint8Array>({
      pull(controller) {
        const part = parts.shift();
        if (part && parts.length > 0) return controller.enqueue(part);
        return new Promise<void>((resolve) => {
          cancel.abort();
          setTimeout(resolve, 20);
        });
      },
    }, { highWaterMark: 0 });
    await assert.rejects(
      receiveContext(slow, {
        directory: `${directory}/slow`,
        dockerfile: "Dockerfile",
        signal: cancel.signal,
      }),
      { name: "AbortError" },
    );
    await assert.rejects(Deno.stat(`${directory}/slow`), Deno.errors.NotFound);
    const evil = await archive([...items, file("../evil")]);
    await assert.rejects(
      receiveContext(stream(evil), {
        directory: `${directory}/evil`,
        dockerfile: "Dockerfile",
      }),
      { code: "context_invalid" },
    );
    await assert.rejects(Deno.stat(`${directory}/evil`), Deno.errors.NotFound);
  }));

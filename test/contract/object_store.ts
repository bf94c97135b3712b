/** What every ObjectStore must do; see lib/store/object_store.ts. */
import assert from "node:assert/strict";
import type { ListEntry, ObjectStore, UploadFile } from "../../lib/store/object_store.ts";

export interface ObjectStoreUnderTest {
  store: ObjectStore;
  /** A restart: closes and opens the same data again. Called where the store is durable. */
  reopen?: () => Promise<ObjectStore>;
  /** Counts what the store keeps besides visible objects and uploads (temporary files). */
  debris?: () => Promise<number>;
  cleanup: () => Promise<void>;
}

const text = (value: string) => new TextEncoder().encode(value);
const read = async (stream: ReadableStream<Uint8Array>) =>
  await new Response(stream as BodyInit).text();
const streamOf = (...parts: string[]) => ReadableStream.from(parts.map(text));

function failing(...parts: string[]): ReadableStream<Uint8Array> {
  const left = parts.map(text);
  return new ReadableStream({
    pull(controller) {
      const next = left.shift();
      if (next) controller.enqueue(next);
      else controller.error(new Error("connection lost"));
    },
  });
}

async function content(store: ObjectStore, key: string): Promise<string | undefined> {
  const body = await store.get(key);
  return body && await read(body.stream());
}

async function keys(listing: AsyncIterable<ListEntry>): Promise<string[]> {
  const found: string[] = [];
  for await (const entry of listing) found.push("prefix" in entry ? entry.prefix : entry.key);
  return found;
}

/** `durable`: what is acknowledged outlives the process; without it that test is left out. */
export function objectStoreContract(
  name: string,
  open: () => Promise<ObjectStoreUnderTest>,
  { durable }: { durable: boolean },
): void {
  const test = (
    title: string,
    fn: (under: ObjectStoreUnderTest) => Promise<void>,
    ignore = false,
  ) =>
    Deno.test({ name: `${name}: ${title}`, ignore }, async () => {
      const under = await open();
      try {
        await fn(under);
        assert.equal(await under.debris?.() ?? 0, 0, "temporary files are left");
      } finally {
        await under.cleanup();
      }
    });

  test("put, get, stat, replace, delete", async ({ store }) => {
    assert.equal(await store.get("a/b"), undefined);
    assert.equal(await store.stat("a/b"), undefined);
    assert.deepEqual(await store.put("a/b", text("one")), { created: true });
    assert.equal(await content(store, "a/b"), "one");
    await store.put("a/b", streamOf("tw", "", "o!"));
    assert.equal(await content(store, "a/b"), "two!");
    const info = await store.stat("a/b");
    assert.equal(info?.size, 4);
    assert.ok(Math.abs(info.modified.getTime() - Date.now()) < 60_000);
    assert.equal(await store.delete("a/b"), true);
    assert.equal(await store.delete("a/b"), false);
    assert.equal(await store.get("a/b"), undefined);
    await store.put("empty", new Uint8Array());
    assert.equal(await content(store, "empty"), "");
  });

  test("reading as a whole and deleting many, where the store can", async ({ store }) => {
    const list = () => keys(store.list(""));
    for (const key of ["a/b/1", "a/b/2", "a/c/1", "d"]) await store.put(key, text(key));
    if (store.read) {
      assert.equal(new TextDecoder().decode(await store.read("a/c/1")), "a/c/1");
      for (const none of ["a", "a/b", "a/none", "none/x", "d/x"]) {
        assert.equal(await store.read(none), undefined, none);
      }
    }
    if (store.deleteAll) {
      const given = new AbortController();
      given.abort(new Error("given up"));
      await assert.rejects(store.deleteAll(["d"], { signal: given.signal }), /given up/);
      assert.equal((await list()).length, 4);
      await store.deleteAll(["a/c/1", "a/b/2", "none/x", "a/b/none", "d"]);
      assert.deepEqual(await list(), ["a/b/1"]);
      await store.put("a/c/1", text("again"));
      await store.deleteAll(["a/b/1", "a/c/1"]);
      assert.deepEqual(await list(), []);
      await store.deleteAll([]);
    }
  });

  test("a key may hold what digests, tags and escaped names are made of", async ({ store }) => {
    const key = `manifests/a.b+c-d_e/sha512:${"a".repeat(128)}`;
    await store.put(key, text("x"));
    await store.put(`tags/${"n".repeat(255)}/V1.0_%`, text("y"));
    assert.equal(await content(store, key), "x");
    assert.equal(await content(store, `tags/${"n".repeat(255)}/V1.0_%`), "y");
    for (const bad of ["", "/a", "a/", "a//b", "a/../b", "..", ".", "a/./b", "a b", "a\\b"]) {
      await assert.rejects(store.put(bad, text("x")), { code: "internal" }, bad);
    }
  });

  test("ranges", async ({ store }) => {
    await store.put("k", streamOf("0123", "4567", "89"));
    const range = async (start: number, end?: number) => {
      const body = await store.get("k", { range: { start, end } });
      assert.equal(body?.total, 10);
      const bytes = await read(body.stream());
      assert.equal(bytes.length, body.size);
      if (body.file) {
        const file = await Deno.readFile(body.file.path);
        const { offset } = body.file;
        assert.equal(new TextDecoder().decode(file.subarray(offset, offset + body.size)), bytes);
      }
      return bytes;
    };
    assert.equal(await range(0), "0123456789");
    assert.equal(await range(0, 0), "0");
    assert.equal(await range(3, 8), "345678");
    assert.equal(await range(4, 7), "4567");
    assert.equal(await range(9, 99), "9");
    await assert.rejects(range(10), { code: "range_invalid" });
    await assert.rejects(range(5, 4), { code: "range_invalid" });
  });

  test("a file is adopted without a copy, where the store can", async ({ store }) => {
    if (!store.adopt) return;
    const folder = await Deno.makeTempDir();
    try {
      const file = `${folder}/file`;
      await Deno.writeTextFile(file, "adopted");
      const given = AbortSignal.abort(new Error("given up"));
      await assert.rejects(store.adopt("a/b", file, { signal: given }), /given up/);
      await assert.rejects(store.adopt("a/b", `${folder}/none`), { name: "NotFound" });
      assert.equal(await store.get("a/b"), undefined);
      // Temporary folders may be elsewhere: then it says so, and did nothing.
      if (!await store.adopt("a/b", file)) return assert.equal(await store.get("a/b"), undefined);
      assert.equal(await content(store, "a/b"), "adopted");
      await Deno.writeTextFile(`${folder}/other`, "other");
      for (const _ of ["over another", "over itself"]) {
        assert.equal(await store.adopt("a/b", `${folder}/other`), true);
        assert.equal(await content(store, "a/b"), "other");
      }
      assert.equal(await Deno.readTextFile(file), "adopted");
      await Deno.remove(`${folder}/other`);
      assert.equal(await content(store, "a/b"), "other");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });

  test("a large object passes in pieces, and a reader may stop", async ({ store }) => {
    const piece = crypto.getRandomValues(new Uint8Array(50_000));
    await store.put("big", ReadableStream.from(Array.from({ length: 41 }, () => piece.slice())));
    assert.equal((await store.stat("big"))?.size, 41 * 50_000);
    let at = 0;
    for await (const chunk of (await store.get("big"))!.stream()) {
      for (const step of [0, chunk.length - 1]) {
        assert.equal(chunk[step], piece[(at + step) % 50_000]);
      }
      at += chunk.length;
    }
    assert.equal(at, 41 * 50_000);
    const reader = (await store.get("big"))!.stream().getReader();
    await reader.read();
    await reader.cancel();
    const early = (await store.get("big"))!.stream();
    await early.cancel();
  });

  test("a put that fails leaves nothing, or what was there", async ({ store }) => {
    await assert.rejects(store.put("k", failing("abc")), /connection lost/);
    await assert.rejects(store.put("k", streamOf("abc"), { size: 4 }), { code: "size_invalid" });
    await assert.rejects(store.put("k", streamOf("abc"), { size: 2 }), { code: "size_invalid" });
    await assert.rejects(store.put("k", text("abc"), { signal: AbortSignal.abort() }));
    assert.equal(await store.get("k"), undefined);
    assert.deepEqual(await keys(store.list("")), []);
    await store.put("k", text("old"));
    await assert.rejects(store.put("k", failing("new")), /connection lost/);
    assert.equal(await content(store, "k"), "old");
  });

  test("ifAbsent: of many writers one wins, and readers see whole objects", async ({ store }) => {
    const writers = Array.from(
      { length: 12 },
      (_, i) => store.put("k", streamOf(`${i}`.padEnd(9, "x")), { ifAbsent: true }),
    );
    const created = (await Promise.all(writers)).filter((result) => result.created);
    assert.equal(created.length, 1);
    assert.match(await content(store, "k") ?? "", /^\d+x+$/);
    const before = await content(store, "k");
    assert.deepEqual(await store.put("k", text("later"), { ifAbsent: true }), { created: false });
    assert.equal(await content(store, "k"), before);
    let writing = true;
    const replace = (async () => {
      for (let i = 0; i < 20; i++) {
        await store.put("k", streamOf(`${i % 10}`, `${i % 10}`.repeat(999)));
      }
      writing = false;
    })();
    while (writing) {
      const seen = await content(store, "k");
      assert.ok(seen === before || new RegExp(`^${seen![0]}{1000}$`).test(seen!), seen);
    }
    await replace;
  });

  test("listing: byte order, after, prefix, delimiter", async ({ store }) => {
    const all = ["a+b", "a-b", "a.b", "a/B", "a/b", "a/c/d", "a/c/e", "a0", "aa", "b/x"];
    for (const key of all.toReversed()) await store.put(key, text(key));
    assert.deepEqual(await keys(store.list("")), all);
    for (const [index, key] of all.entries()) {
      assert.deepEqual(await keys(store.list("", { after: key })), all.slice(index + 1), key);
    }
    assert.deepEqual(await keys(store.list("", { after: "a/" })), all.slice(3));
    assert.deepEqual(await keys(store.list("a/")), ["a/B", "a/b", "a/c/d", "a/c/e"]);
    assert.deepEqual(await keys(store.list("a/", { after: "a/bb" })), ["a/c/d", "a/c/e"]);
    assert.deepEqual(await keys(store.list("a/", { delimiter: "/" })), ["a/B", "a/b", "a/c/"]);
    assert.deepEqual(await keys(store.list("a/", { delimiter: "/", after: "a/c/" })), []);
    assert.deepEqual(await keys(store.list("a/", { delimiter: "/", after: "a/b" })), ["a/c/"]);
    assert.deepEqual(await keys(store.list("", { delimiter: "/" })), [
      "a+b",
      "a-b",
      "a.b",
      "a/",
      "a0",
      "aa",
      "b/",
    ]);
    assert.deepEqual(await keys(store.list("missing/")), []);
    for await (const entry of store.list("b/")) {
      assert.ok("key" in entry && entry.size === 3 && entry.modified instanceof Date);
    }
    await store.delete("a/c/d");
    await store.delete("a/c/e");
    assert.deepEqual(await keys(store.list("a/", { delimiter: "/" })), ["a/B", "a/b"]);
  });

  test("a folder that deletes empty takes puts at the same time", async ({ store }) => {
    for (let round = 0; round < 15; round++) {
      await store.put("d/e/one", text("1"));
      await Promise.all([store.delete("d/e/one"), store.put("d/e/two", text("2"))]);
      assert.deepEqual(await keys(store.list("d/")), ["d/e/two"]);
      await store.delete("d/e/two");
    }
  });

  test("an upload grows, is seen under its key at the end only, and ends", async ({ store }) => {
    const upload = await store.uploads.create("one-1");
    const buffer = text("hello ");
    await upload.write(buffer);
    buffer.fill(0);
    await upload.write(text("world"));
    await upload.flush();
    assert.equal(upload.offset, 11);
    assert.equal(await read(upload.read()), "hello world");
    assert.deepEqual(await keys(store.list("")), []);
    await upload.commit("x/y");
    assert.equal(await content(store, "x/y"), "hello world");
    assert.equal(await store.uploads.open("one-1"), undefined);
    assert.deepEqual(await Array.fromAsync(store.uploads.list()), []);
  });

  test("committing onto an object of another size, or told to, replaces it", async ({ store }) => {
    await store.put("k", text("first"));
    for (const [bytes, replace] of [["second", false], ["third!", true]] as const) {
      const upload = await store.uploads.create("u");
      await upload.write(text(bytes));
      await upload.commit("k", { replace });
      assert.equal(await content(store, "k"), bytes);
      assert.equal(await store.uploads.open("u"), undefined);
    }
    const empty = await store.uploads.create("e");
    await empty.commit("empty");
    assert.equal(await content(store, "empty"), "");
  });

  test("uploads are listed, aborted more than once, and ids are checked", async ({ store }) => {
    const upload: UploadFile = await store.uploads.create("id-1");
    await upload.write(text("abc"));
    await upload.flush();
    const [listed, ...others] = await Array.fromAsync(store.uploads.list());
    assert.deepEqual(others, []);
    assert.equal(listed.id, "id-1");
    assert.equal(listed.size, 3);
    assert.ok(Math.abs(listed.modified.getTime() - Date.now()) < 60_000);
    await assert.rejects(store.uploads.create("id-1"));
    await upload.abort();
    await upload.abort();
    assert.equal(await store.uploads.open("id-1"), undefined);
    assert.equal(await store.uploads.open("../../etc/passwd"), undefined);
    assert.equal(await store.uploads.open("never"), undefined);
  });

  test("an upload is closed and opened again", async ({ store }) => {
    const first = await store.uploads.create("u");
    await first.write(text("abc"));
    await first.flush();
    await first.close();
    const again = await store.uploads.open("u");
    assert.equal(again?.offset, 3);
    await again.write(text("def"));
    assert.equal(await read(again.read()), "abcdef");
    await again.commit("k");
    assert.equal(await content(store, "k"), "abcdef");
  });

  test("what was acknowledged is there after a restart", async (under) => {
    await under.store.put("a/b", text("kept"));
    const upload = await under.store.uploads.create("u");
    await upload.write(text("abc"));
    await upload.flush();
    await upload.close();
    under.store = await under.reopen!();
    assert.equal(await content(under.store, "a/b"), "kept");
    const again = await under.store.uploads.open("u");
    assert.ok(again && again.offset >= 3);
    assert.equal((await read(again.read())).slice(0, 3), "abc");
    await again.abort();
  }, !durable);
}

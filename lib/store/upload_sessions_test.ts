/** Which uploads are kept open between calls, and what happens to the others. */
import assert from "node:assert/strict";
import { openMemStore } from "../../backends/store/mem.ts";
import { setClock } from "../../test/fixtures/set_clock.ts";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import { digestOf } from "../oci/digest.ts";
import { Damage } from "./damage.ts";
import { blobKey } from "./keys.ts";
import type { ObjectStore, UploadFile } from "./object_store.ts";
import { Uploads } from "./uploads.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const body = (text: string) => ReadableStream.from([bytes(text)]);

interface Watched {
  uploads: Uploads;
  objects: ObjectStore;
  damage: Damage;
  /** Ids of the files that are open. */
  open: Set<string>;
  /** How often a file was opened, by id; its creation counts. */
  opened: Map<string, number>;
  /** How often a file's bytes were read to be hashed. */
  reads: number;
  /** Ids that another server has gone on with. */
  elsewhere: Set<string>;
  /** How often a file was closed, by id, and how often one was aborted. */
  closed: Map<string, number>;
  aborts: number;
  /** Thrown by the next opening. */
  failure?: Error;
  /** Waited for before a file's call of that name; where it rejects, the call fails. */
  before: Partial<Record<"open" | "write" | "flush" | "commit", () => Promise<void>>>;
}

/** Resolves when the test says so. */
function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  const wait = () => (reached.resolve(), promise);
  return { wait, reached: reached.promise, open: resolve };
}

/** Over a store in memory; `shared`: another server could go on with an upload. */
function watched({ shared = false, stalledMs = 1000 } = {}): Watched {
  const inner = openMemStore();
  const watch = (file: UploadFile): UploadFile => {
    state.open.add(file.id);
    state.opened.set(file.id, (state.opened.get(file.id) ?? 0) + 1);
    const left = <T>(work: Promise<T>) => {
      state.open.delete(file.id);
      return work;
    };
    return {
      id: file.id,
      get offset() {
        return file.offset;
      },
      write: async (chunk) => {
        assert(state.open.has(file.id), "a closed file is written to");
        await state.before.write?.();
        await file.write(chunk);
      },
      flush: async () => {
        await state.before.flush?.();
        await file.flush();
      },
      read: () => {
        state.reads++;
        return file.read();
      },
      commit: async (key, options) => {
        await state.before.commit?.();
        await left(file.commit(key, options));
      },
      abort: () => {
        state.aborts++;
        return left(file.abort());
      },
      close: () => {
        state.closed.set(file.id, (state.closed.get(file.id) ?? 0) + 1);
        return left(file.close());
      },
      ...(shared && { current: () => Promise.resolve(!state.elsewhere.delete(file.id)) }),
    };
  };
  const objects: ObjectStore = {
    ...inner,
    get: (key, options) => inner.get(key, options),
    stat: (key, options) => inner.stat(key, options),
    put: (key, value, options) => inner.put(key, value, options),
    delete: (key, options) => inner.delete(key, options),
    list: (prefix, options) => inner.list(prefix, options),
    uploads: {
      create: async (id, options) => watch(await inner.uploads.create(id, options)),
      open: async (id, options) => {
        const { failure } = state;
        state.failure = undefined;
        if (failure) throw failure;
        await state.before.open?.();
        const file = await inner.uploads.open(id, options);
        return file && watch(file);
      },
      list: (options) => inner.uploads.list(options),
    },
  };
  const damage = new Damage(objects, silent);
  const state: Watched = {
    objects,
    damage,
    uploads: new Uploads(objects, damage, stalledMs),
    before: {},
    open: new Set(),
    opened: new Map(),
    closed: new Map(),
    aborts: 0,
    reads: 0,
    elsewhere: new Set(),
  };
  return state;
}

Deno.test("uploads: at most 128 are kept open, those that were used last", async () => {
  const state = watched();
  const started = [];
  for (let n = 0; n < 128; n++) started.push(await state.uploads.start("a"));
  assert.equal(state.open.size, 128);
  // The first becomes the last that was used.
  await (await state.uploads.open("a", started[0].id))!.append(body("one"));
  await state.uploads.start("a");
  assert.equal(state.open.size, 128);
  assert(state.open.has(started[0].id));
  assert(!state.open.has(started[1].id));
  // What was closed goes on where it was.
  assert.equal(await started[1].append(body("two")), 3);
  assert.equal(state.opened.get(started[1].id), 2);
  assert.equal(state.opened.get(started[0].id), 1);
  assert.equal(state.open.size, 128);
  await started[1].commit(digestOf(bytes("two")));
});

Deno.test("uploads: one that is in use is not closed, however many follow", async () => {
  const state = watched();
  const upload = await state.uploads.start("a");
  const { readable, writable } = new TransformStream<Uint8Array>();
  const writer = writable.getWriter();
  const appended = upload.append(readable);
  await writer.write(bytes("one, "));
  for (let n = 0; n < 200; n++) await state.uploads.start("a");
  assert.equal(state.open.size, 128);
  assert(state.open.has(upload.id));
  await writer.write(bytes("two"));
  await writer.close();
  assert.equal(await appended, 8);
  assert.equal(state.opened.get(upload.id), 1);
});

Deno.test("uploads: a refused repository leaves nothing behind", async () => {
  const state = watched();
  await assert.rejects(state.uploads.start("No/Name"), {
    code: "name_invalid",
    message: /No\/Name/,
  });
  assert.deepEqual(await Array.fromAsync(state.objects.uploads.list()), []);
});

Deno.test("uploads: one belongs to its repository, and is there under no other's name", async () => {
  const state = watched();
  const { id } = await state.uploads.start("a");
  const another = new Uploads(state.objects, new Damage(state.objects, silent));
  for (const uploads of [state.uploads, another]) {
    for (const name of ["b", "a/b", ""]) assert.equal(await uploads.open(name, id), undefined);
    assert.equal((await uploads.open("a", id))?.repository, "a");
  }
});

Deno.test("uploads: an opening that failed, or found nothing, is not remembered", async () => {
  const state = watched();
  const { id } = await state.uploads.start("a");
  const other = new Uploads(state.objects, new Damage(state.objects, silent));
  state.failure = new Error("the disk is slow");
  await assert.rejects(other.open("a", id), /the disk is slow/);
  assert.equal((await other.open("a", id))!.offset, 0);
  const missing = id.replace(/^./, (digit) => digit === "0" ? "1" : "0");
  assert.equal(await other.open("a", missing), undefined);
  await (await state.objects.uploads.create(missing)).close();
  assert.equal((await other.open("a", missing))!.id, missing);
});

Deno.test("uploads: bytes are hashed while they come, and again only for another algorithm", async () => {
  const state = watched();
  const known = await state.uploads.start("a");
  await known.append(body("one"));
  await known.commit(digestOf(bytes("one")));
  const long = await state.uploads.start("a", { algorithm: "sha512" });
  await long.append(body("two"));
  await long.commit(digestOf(bytes("two"), "sha512"));
  assert.equal(state.reads, 0);
  const changed = await state.uploads.start("a", { algorithm: "sha512" });
  await changed.append(body("three"));
  await changed.commit(digestOf(bytes("three")));
  assert.equal(state.reads, 1);
});

Deno.test("uploads: what another server went on with is opened again, unless it is in use", async () => {
  const state = watched({ shared: true });
  const upload = await state.uploads.start("a");
  await state.uploads.open("a", upload.id);
  assert.equal(state.opened.get(upload.id), 1, "it is still the store's");
  state.elsewhere.add(upload.id);
  const again = (await state.uploads.open("a", upload.id))!;
  assert.equal(state.opened.get(upload.id), 2);
  assert(state.open.has(upload.id));
  assert.equal(state.closed.get(upload.id), 1, "the old file is closed");
  const { readable, writable } = new TransformStream<Uint8Array>();
  const writer = writable.getWriter();
  const appended = again.append(readable);
  await writer.write(bytes("one"));
  state.elsewhere.add(upload.id);
  assert.equal((await state.uploads.open("a", upload.id))?.id, upload.id);
  assert.equal(state.opened.get(upload.id), 2, "its append goes on");
  await writer.close();
  assert.equal(await appended, 3);
});

Deno.test("uploads: one that is used again and again does not expire", async () => {
  const state = watched();
  const used = await state.uploads.start("a");
  const idle = await state.uploads.start("a");
  // The file's time and the server's clock count whole milliseconds.
  await new Promise((resolve) => setTimeout(resolve, 5));
  const then = performance.now();
  await used.append(body("x"));
  assert.equal(await state.uploads.expire(performance.now() - then), 1);
  assert.equal(await state.uploads.open("a", idle.id), undefined);
  assert.equal((await state.uploads.open("a", used.id))!.offset, 1);
});

Deno.test("uploads: a clock that is set forward ends none that is used", async () => {
  const state = watched();
  const used = await state.uploads.start("a");
  await used.append(body("x"));
  {
    using _forward = setClock(3600_000);
    assert.equal(await state.uploads.expire(60_000), 0);
  }
  assert.equal((await state.uploads.open("a", used.id))!.offset, 1);
});

Deno.test("uploads: one that is being committed is neither closed nor opened again", async () => {
  const state = watched({ shared: true });
  const upload = await state.uploads.start("a");
  await upload.append(body("one"));
  const { wait, reached, open } = gate();
  state.before.commit = wait;
  const committed = upload.commit(digestOf(bytes("one")));
  await reached;
  state.elsewhere.add(upload.id);
  const again = state.uploads.open("a", upload.id);
  // Its opening finds nothing, and does not disturb those that come after it.
  const missing = upload.id.replace(/^./, (digit) => digit === "0" ? "1" : "0");
  const opening = gate();
  state.before.open = opening.wait;
  const nothing = state.uploads.open("a", missing);
  await opening.reached;
  opening.open();
  for (let n = 0; n < 130; n++) await state.uploads.start("a");
  assert.equal(await nothing, undefined);
  assert(state.open.has(upload.id));
  assert.equal(state.closed.get(upload.id), undefined);
  open();
  await committed;
  assert.equal((await again)?.id, upload.id);
});

Deno.test("uploads: what waited for its end is told of it", async () => {
  for (const call of ["append", "commit"] as const) {
    const { uploads } = watched();
    const upload = await uploads.start("a");
    await upload.append(body("one"));
    const digest = digestOf(bytes("one"));
    const committed = upload.commit(digest);
    const late = call === "append" ? upload.append(body("two")) : upload.commit(digest);
    await assert.rejects(late, { code: "blob_upload_unknown" });
    await committed;
  }
  const state = watched();
  const upload = await state.uploads.start("a");
  await Promise.all([upload.abort(), upload.abort()]);
  assert.equal(state.aborts, 1);
});

Deno.test("uploads: an append waits for one that makes progress, or as long as its signal says", async () => {
  // Long enough for any machine: what waits looks ten times within it.
  const { uploads } = watched({ stalledMs: 5_000 });
  const upload = await uploads.start("a");
  const { readable, writable } = new TransformStream<Uint8Array>();
  const writer = writable.getWriter();
  const appended = upload.append(readable);
  await writer.write(bytes("one, "));
  const leaving = new AbortController();
  const left = upload.append(body("never"), { signal: leaving.signal });
  const next = upload.append(body("two"));
  // By then both wait.
  await new Promise((resolve) => setTimeout(resolve, 10));
  leaving.abort(new Error("it has left"));
  await assert.rejects(left, /it has left/);
  // The other one has looked at least once by then, and leaves the running one alone.
  await new Promise((resolve) => setTimeout(resolve, 600));
  await writer.close();
  assert.equal(await appended, 5);
  assert.equal(await next, 8);
  await upload.commit(digestOf(bytes("one, two")));
});

Deno.test("uploads: one for which there is no room does not keep what it took", async () => {
  const state = watched();
  const upload = await state.uploads.start("a");
  await upload.append(body("one"));
  const full = new SvcError("storage_full", "Cannot write: the disk is full");
  state.before.write = () => Promise.reject(full);
  await assert.rejects(upload.append(body("two")), full);
  assert.equal(state.aborts, 1);
  assert.equal(await state.uploads.open("a", upload.id), undefined);
  assert.deepEqual(await Array.fromAsync(state.objects.uploads.list()), []);
});

Deno.test("uploads: bytes that were not flushed are read again for the digest", async () => {
  const state = watched();
  const upload = await state.uploads.start("a");
  state.before.flush = () => Promise.reject(new Error("the disk is slow"));
  await assert.rejects(upload.append(body("one")), /the disk is slow/);
  await upload.commit(digestOf(bytes("one")));
  assert.equal(state.reads, 1);
});

Deno.test("uploads: a damaged blob that is uploaded again is good", async () => {
  const { uploads, damage } = watched();
  const digest = digestOf(bytes("one"));
  await damage.tell(blobKey(digest), "its bytes have another digest");
  const upload = await uploads.start("a");
  await upload.append(body("one"));
  await upload.commit(digest);
  assert.equal(await damage.has(blobKey(digest)), false);
});

Deno.test("uploads: those expire that nobody uses, also those of another server", async () => {
  const state = watched();
  const other = new Uploads(state.objects, state.damage);
  const mine = await state.uploads.start("a");
  const theirs = await other.start("a");
  assert.equal(await state.uploads.expire(60_000), 0);
  const { readable, writable } = new TransformStream<Uint8Array>();
  const writer = writable.getWriter();
  const appended = mine.append(readable);
  await writer.write(bytes("one"));
  await new Promise((resolve) => setTimeout(resolve, 60));
  assert.equal(await state.uploads.expire(40), 1, "one is being appended to");
  assert.equal(await state.uploads.open("a", theirs.id), undefined);
  await writer.close();
  assert.equal(await appended, 3);
});

Deno.test("uploads: at the end every file is closed once, and the uploads stay", async () => {
  const state = watched();
  const kept = await Promise.all([1, 2].map(() => state.uploads.start("a")));
  const { wait, reached, open } = gate();
  state.before.open = wait;
  // An opening that finds nothing is under way.
  const missing = kept[0].id.replace(/^./, (digit) => digit === "0" ? "1" : "0");
  const nothing = state.uploads.open("a", missing);
  await reached;
  const closed = state.uploads.close();
  open();
  assert.equal(await nothing, undefined);
  await closed;
  assert.equal(state.open.size, 0);
  assert.deepEqual(kept.map(({ id }) => state.closed.get(id)), [1, 1]);
  assert.equal((await Array.fromAsync(state.objects.uploads.list())).length, 2);
});

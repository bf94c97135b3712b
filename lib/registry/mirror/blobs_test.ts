import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { openMemStore } from "../../../backends/store/mem.ts";
import { createContentStore } from "../../store/content.ts";
import { silent } from "../../base/log.ts";
import { digestOf } from "../../oci/digest.ts";
import { blobKey } from "../../store/keys.ts";
import { FakeUpstream, mirrored, noise, read } from "./fixture_test.ts";

const PIECE = 64 * 1024;

/** Bytes that go out one piece for each call of `more`; `all()` lets the rest follow. */
function faucet() {
  let tickets = 0;
  let open = false;
  let waiting = Promise.withResolvers<void>();
  const wake = () => {
    waiting.resolve();
    waiting = Promise.withResolvers();
  };
  return {
    more(count = 1) {
      tickets += count;
      wake();
    },
    all() {
      open = true;
      wake();
    },
    serve: (bytes: Uint8Array) => {
      let at = 0;
      return new ReadableStream<Uint8Array>({
        async pull(controller) {
          while (tickets === 0 && !open) await waiting.promise;
          if (tickets > 0) tickets--;
          controller.enqueue(bytes.slice(at, at + PIECE));
          at += PIECE;
          if (at >= bytes.length) controller.close();
        },
      }, { highWaterMark: 0 });
    },
  };
}

/** Bytes that break off after `count`. */
const broken = (count: number, error: unknown) => (bytes: Uint8Array) => {
  let sent = false;
  return new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent) return controller.error(error);
      sent = true;
      controller.enqueue(bytes.slice(0, count));
    },
  }, { highWaterMark: 0 });
};

async function eventually(what: () => boolean | Promise<boolean>): Promise<void> {
  for (const until = Date.now() + 60_000; !await what();) {
    if (Date.now() > until) assert.fail("it did not happen in time");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

Deno.test("mirror blobs: a cold blob comes from upstream once, then from the store", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const bytes = noise(300_000);
  const { digest } = upstream.addBlob(bytes);
  const response = await it.send("GET", `/v2/app/blobs/${digest}`);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-length"), "300000");
  assert.deepEqual(new Uint8Array(await response.arrayBuffer()), bytes);
  await eventually(() => it.store.hasBlob("app", digest));
  assert.deepEqual(await read(await it.mirror.get("app", digest)), bytes);
  assert.deepEqual(await read(await it.mirror.get("other", digest)), bytes);
  assert.equal(upstream.count("get"), 1);
});

Deno.test("mirror blobs: bytes reach the client before the upstream has sent them all", async () => {
  const upstream = new FakeUpstream();
  const tap = faucet();
  upstream.serve = tap.serve;
  await using it = await mirrored(upstream);
  const bytes = noise(10 * PIECE);
  const { digest } = upstream.addBlob(bytes);
  const response = await it.send("GET", `/v2/app/blobs/${digest}`);
  const reader = response.body!.getReader();
  tap.more(2);
  const first = (await reader.read()).value!;
  assert.deepEqual(first, bytes.slice(0, first.length));
  assert.equal(await it.store.hasBlob("app", digest), false);

  // A second client, and one that wants a part, share the fetch; a HEAD needs no upstream.
  const second = read(await it.mirror.get("app", digest));
  const part = read(await it.mirror.get("app", digest, { range: { start: 5, end: PIECE + 4 } }));
  assert.deepEqual(await part, bytes.slice(5, PIECE + 5));
  const stats = upstream.count("stat");
  const head = await it.send("HEAD", `/v2/app/blobs/${digest}`);
  assert.equal(head.headers.get("content-length"), String(bytes.length));
  assert.equal(upstream.count("stat"), stats);
  tap.all();
  assert.deepEqual(await second, bytes);
  let size = first.length;
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    size += next.value.length;
  }
  assert.equal(size, bytes.length);
  assert.equal(upstream.count("get"), 1);
  assert.equal(upstream.count("range"), 0);
});

Deno.test("mirror blobs: clients that leave or stand still stop neither others nor the storing", async () => {
  const upstream = new FakeUpstream();
  const tap = faucet();
  upstream.serve = tap.serve;
  await using it = await mirrored(upstream);
  const bytes = noise(40 * PIECE);
  const { digest } = upstream.addBlob(bytes);
  const leaving = (await it.mirror.get("app", digest))!.stream().getReader();
  const slow = (await it.mirror.get("app", digest))!.stream().getReader();
  tap.more(2);
  await leaving.read();
  const first = (await slow.read()).value!;
  await leaving.cancel();
  tap.all();
  await eventually(() => it.store.hasBlob("app", digest));
  // The one that stood still goes on behind where it was.
  let at = first.length;
  for (let next = await slow.read(); !next.done; next = await slow.read()) {
    assert.deepEqual(next.value, bytes.slice(at, at + next.value.length));
    at += next.value.length;
  }
  assert.equal(at, bytes.length);
  assert.equal(upstream.count("get"), 1);
});

Deno.test("mirror blobs: the client's signal ends its waiting, not the fetch", async () => {
  const upstream = new FakeUpstream();
  const hold = Promise.withResolvers<void>();
  upstream.hold = hold.promise;
  await using it = await mirrored(upstream);
  const { digest } = upstream.addBlob(noise(1000));
  const abort = new AbortController();
  const first = it.mirror.get("app", digest, { signal: abort.signal });
  const second = it.mirror.get("app", digest);
  await eventually(() => upstream.count("get") === 1);
  abort.abort(new DOMException("gone", "AbortError"));
  await assert.rejects(first, { name: "AbortError" });
  hold.resolve();
  assert.equal((await read(await second)).length, 1000);
  assert.equal(upstream.count("get"), 1);
});

Deno.test("mirror blobs: an upstream that breaks off fails its readers, and the next try is a new one", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const bytes = noise(5 * PIECE);
  const { digest } = upstream.addBlob(bytes);
  upstream.serve = broken(PIECE, new SvcError("upstream_failed", "Cannot read on: it broke off"));
  const bodies = await Promise.all([it.mirror.get("app", digest), it.mirror.get("app", digest)]);
  for (const body of bodies) await assert.rejects(read(body), { code: "upstream_failed" });
  assert.equal(await it.store.hasBlob("app", digest), false);
  upstream.serve = undefined;
  assert.deepEqual(await read(await it.mirror.get("app", digest)), bytes);
});

Deno.test("mirror blobs: wrong bytes never look like a whole blob, and are not kept", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const bytes = noise(2 * PIECE);
  const { digest } = upstream.addBlob(bytes);
  upstream.serve = (right) => {
    const wrong = right.slice();
    wrong[7] ^= 1;
    return new Blob([new Uint8Array(wrong)]).stream();
  };
  const body = await it.mirror.get("app", digest);
  let seen = 0;
  await assert.rejects(async () => {
    for await (const chunk of body!.stream()) seen += chunk.length;
  }, { code: "digest_invalid" });
  assert(seen < bytes.length, `${seen} bytes were handed out`);
  assert.equal(await it.store.hasBlob("app", digest), false);
});

Deno.test("mirror blobs: what cannot be stored is served all the same", async () => {
  const upstream = new FakeUpstream();
  const content = createContentStore(openMemStore(), { log: silent });
  const store = {
    ...content,
    putBlob: () => Promise.reject(new SvcError("storage_full", "Cannot write: the disk is full")),
  };
  await using it = await mirrored(upstream, { store });
  const bytes = noise(20 * PIECE);
  const { digest } = upstream.addBlob(bytes);
  assert.deepEqual(await read(await it.mirror.get("app", digest)), bytes);
  const late = await it.mirror.get("app", digest);
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual(await read(late), bytes);
  assert.equal(await content.hasBlob("app", digest), false);
});

Deno.test("mirror blobs: a range far into a cold blob does not wait for what is before it", async () => {
  const upstream = new FakeUpstream();
  const tap = faucet();
  upstream.serve = tap.serve;
  await using it = await mirrored(upstream);
  const bytes = noise(9 * 1024 * 1024);
  const { digest } = upstream.addBlob(bytes);
  const response = await it.send("GET", `/v2/app/blobs/${digest}`, {
    headers: { range: `bytes=${bytes.length - 10}-` },
  });
  assert.equal(response.status, 206);
  assert.deepEqual(new Uint8Array(await response.arrayBuffer()), bytes.slice(-10));
  tap.all();
  await eventually(() => it.store.hasBlob("app", digest));
});

Deno.test("mirror blobs: missing is a 404, remembered for a moment; down is a 502, but no for a HEAD", async () => {
  const upstream = new FakeUpstream();
  let now = 0;
  await using it = await mirrored(upstream, { pauseMs: 1000, now: () => now });
  const digest = digestOf(noise(10));
  const path = `/v2/app/blobs/${digest}`;
  for (const _ of [1, 2, 3]) assert.equal((await it.send("GET", path)).status, 404);
  assert.equal(upstream.asked.length, 1);
  upstream.addBlob(noise(10));
  assert.equal((await it.send("GET", path)).status, 404);
  now += 1000;
  assert.equal((await it.send("GET", path)).status, 200);

  upstream.down();
  const other = `/v2/app/blobs/${digestOf(noise(11))}`;
  assert.equal((await it.send("HEAD", other)).status, 404);
  assert.equal((await it.send("GET", other)).status, 502);
  assert.equal(upstream.count("stat"), 3, "a dead upstream is not asked for every request");
});

Deno.test("mirror blobs: an upstream that refuses counts as not having it", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  upstream.failure = new SvcError(
    "unauthorized",
    "Cannot use registry up.example: a login is needed",
  );
  assert.equal((await it.send("HEAD", `/v2/app/blobs/${digestOf(noise(1))}`)).status, 404);
  assert.equal((await it.send("GET", `/v2/app/blobs/${digestOf(noise(1))}`)).status, 404);
});

Deno.test("mirror blobs: with the cache off nothing is written", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream, { cache: false });
  const bytes = noise(5 * PIECE);
  const { digest } = upstream.addBlob(bytes);
  assert.deepEqual(await read(await it.mirror.get("app", digest)), bytes);
  const part = await it.mirror.get("app", digest, { range: { start: 1, end: 3 } });
  assert.deepEqual(await read(part), bytes.slice(1, 4));
  assert.deepEqual(await Array.fromAsync(it.objects.list("")), []);
  assert.deepEqual([...Deno.readDirSync(it.folder)], []);
});

Deno.test("mirror blobs: a blob of no bytes", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream);
  const { digest } = upstream.addBlob(new Uint8Array());
  assert.equal((await read(await it.mirror.get("app", digest))).length, 0);
  await eventually(() => it.store.hasBlob("app", digest));
});

Deno.test("mirror blobs: closing ends a fetch that would never end", async () => {
  const upstream = new FakeUpstream();
  upstream.hold = new Promise(() => {});
  const it = await mirrored(upstream);
  const body = it.mirror.get("app", upstream.addBlob(noise(5)).digest);
  const failed = assert.rejects(body, { name: "AbortError" });
  await eventually(() => upstream.count("get") === 1);
  await it[Symbol.asyncDispose]();
  await failed;
});

Deno.test("mirror: a damaged blob and a damaged manifest come again from upstream", async () => {
  const upstream = new FakeUpstream();
  await using it = await mirrored(upstream, { freshMs: 60_000 });
  const image = upstream.addImage("app", noise(1000), "v1");
  const layer = image.layers[0].digest;
  await (await it.send("GET", "/v2/app/manifests/v1")).body?.cancel();
  await read(await it.mirror.get("app", layer));
  await eventually(() => it.store.hasBlob("app", layer));
  for (const digest of [layer, image.digest]) {
    await it.objects.put(blobKey(digest), noise(1000, 2));
  }
  const log = silent;
  {
    await using _scrub = it.store.upkeep.scrub({ withinMs: 100, log, refetch: it.mirror.refetch });
    await eventually(async () => (await it.store.upkeep.scrubbed())?.finished !== undefined);
  }
  const { damaged } = (await it.store.upkeep.scrubbed())!;
  assert.deepEqual(damaged.map(({ refetched }) => refetched), [true, true]);
  const found = (await Array.fromAsync(it.store.upkeep.verify())).at(-1);
  assert.equal(found?.type === "result" && found.result.problems, 0);
});

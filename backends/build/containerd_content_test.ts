/** Blobs and images of builds in a real containerd: fetched once, kept while needed, dropped when not. */
import assert from "node:assert/strict";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { unmount } from "../../lib/sys/mount.ts";
import { silent } from "../../lib/base/log.ts";
import { Leases } from "../../lib/containerd/api.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import { ContainerdContent } from "../../lib/containerd/content.ts";
import { Images } from "../../lib/containerd/image_api.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import type { BlobBody, ByteRange } from "../../lib/oci/image.ts";
import { type Digest, type Manifest, MEDIA } from "../../lib/oci/types.ts";
import { MemoryImages } from "../../test/contract/builder_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { type ContainerdPeer, startContainerd } from "../../test/peers/containerd.ts";
import { openContent } from "./containerd/content.ts";

const { ignore } = requireTools({ root: true, commands: ["containerd"] });

let peer: ContainerdPeer;
let home: string;
let namespaces = 0;
const LEASE = "test";

Deno.test.beforeAll(async () => {
  if (ignore) return;
  home = await Deno.makeTempDir({ prefix: "svc-content-" });
  peer = await startContainerd(home);
});

Deno.test.afterAll(async () => {
  if (ignore) return;
  await peer[Symbol.asyncDispose]();
  for (const { target } of await mountsUnder(home)) unmount(target, { detach: true });
  await Deno.remove(home, { recursive: true });
});

interface Fixture {
  client: ContainerdClient;
  content: ContainerdContent;
  write(...args: Parameters<ContainerdContent["write"]>): Promise<void>;
  open(owner?: string): ReturnType<typeof openContent>;
  /** Has containerd remove everything that nobody needs. */
  collect(): Promise<void>;
}

const contentTest = (title: string, work: (fixture: Fixture) => Promise<void>) =>
  Deno.test({ name: `containerd's content: ${title}`, ignore }, async () => {
    const namespace = `content-${namespaces++}`;
    await using client = new ContainerdClient({ address: peer.address, namespace });
    // What no lease keeps may go at any time.
    await client.call(Leases.create, { id: LEASE }, "Cannot make a lease");
    const content = new ContainerdContent(client, "me");
    const write: Fixture["write"] = (descriptor, source) =>
      content.write(descriptor, source, { lease: LEASE });
    await work({
      client,
      content,
      write,
      open: (owner = "me") => openContent({ client, owner, log: silent }),
      collect: async () => {
        await client.call(Leases.create, { id: "collect" }, "Cannot make a lease");
        await client.call(Leases.delete, { id: "collect", sync: true }, "Cannot collect");
      },
    });
  });

let made = 0;

/** Bytes that no other test has: namespaces share what is the same. */
function bytesOf(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(size).fill(++made);
}

async function text(body: BlobBody): Promise<Uint8Array<ArrayBuffer>> {
  return await new Response(body.stream() as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
}

/** The first `size` bytes, and then an error. */
function cutOff(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  let sent = false;
  return new ReadableStream({
    pull(controller) {
      if (sent) return controller.error(new Error("cut off"));
      controller.enqueue(bytes.slice(0, size));
      sent = true;
    },
  }, { highWaterMark: 0 });
}

const streamOf = (bytes: Uint8Array<ArrayBuffer>) => Promise.resolve(new Blob([bytes]).stream());

contentTest("what was written is read, whole and in part", async ({ content, write }) => {
  for (const size of [1, 3_000_000]) {
    const bytes = bytesOf(size);
    const descriptor = { digest: digestOf(bytes), size };
    assert.equal(await content.info(descriptor.digest), undefined);
    await write(descriptor, { open: () => streamOf(bytes), ranges: false });
    assert.equal((await content.info(descriptor.digest))?.size, size);
    const body = await content.body(descriptor);
    assert.deepEqual(await Deno.readFile(body.file!.path), bytes);
    assert.deepEqual(await text(body), bytes);
  }
  const bytes = bytesOf(2_500_000);
  const descriptor = { digest: digestOf(bytes), size: bytes.length };
  await write(descriptor, { open: () => streamOf(bytes), ranges: false });
  const part = await content.body(descriptor, { range: { start: 1_000_000, end: 2_100_000 } });
  assert.equal(part.size, 1_100_001);
  assert.deepEqual(await text(part), bytes.subarray(1_000_000, 2_100_001));
  await assert.rejects(content.body(descriptor, { range: { start: 2_500_000 } }), {
    code: "range_invalid",
  });
});

contentTest(
  "other bytes, too few and too many are refused and not kept",
  async ({ content, write }) => {
    const bytes = bytesOf(2_000_000);
    const descriptor = { digest: digestOf(bytes), size: bytes.length };
    const other = Uint8Array.from(bytes).fill(0, 5, 6);
    for (const wrong of [other, bytes.slice(1), new Uint8Array([...bytes, 1])]) {
      await assert.rejects(
        write(descriptor, { open: () => streamOf(wrong), ranges: false }),
        { code: "digest_invalid" },
      );
      assert.deepEqual(await content.ingests(), []);
      assert.equal(await content.info(descriptor.digest), undefined);
    }
    await write(descriptor, { open: () => streamOf(bytes), ranges: false });
    assert.ok(await content.info(descriptor.digest));
  },
);

contentTest("a write that was cut off goes on where it was", async ({ client, write }) => {
  const bytes = bytesOf(3_000_000);
  const descriptor = { digest: digestOf(bytes), size: bytes.length };
  const cut = write(descriptor, {
    open: () => Promise.resolve(cutOff(bytes, 2_500_000)),
    ranges: true,
  });
  await assert.rejects(cut, /cut off/);
  // A server that was killed comes back with a client of its own.
  const later = new ContainerdContent(client, "me");
  const [{ offset }] = await later.ingests();
  assert.equal(offset, 2 << 20);
  const asked: number[] = [];
  const open = (from: number) => {
    asked.push(from);
    return streamOf(bytes.slice(from));
  };
  await later.write(descriptor, { open, ranges: true }, { lease: LEASE });
  assert.deepEqual(asked, [offset]);
  assert.deepEqual(await text(await later.body(descriptor)), bytes);
  // What is there is not read again.
  await later.write(descriptor, { open, ranges: true }, { lease: LEASE });
  assert.deepEqual(asked, [offset]);
  // What another namespace has is: who only knows its digest must not get it.
  await using other = new ContainerdClient({ address: client.address, namespace: "other" });
  await other.call(Leases.create, { id: LEASE }, "Cannot make a lease");
  const others = new ContainerdContent(other, "me");
  await others.write(descriptor, { open, ranges: false }, { lease: LEASE });
  assert.deepEqual(asked, [offset, 0]);
  assert.equal((await others.info(descriptor.digest))?.size, bytes.length);
});

/** A registry with one image of these layers that counts what is read of it. */
async function imageWith(...layers: Uint8Array<ArrayBuffer>[]) {
  const images = new MemoryImages();
  const rootfs = { type: "layers" as const, diff_ids: layers.map((layer) => digestOf(layer)) };
  await images.add("base", { architecture: "amd64", os: "linux", rootfs }, layers);
  const reads: string[] = [];
  const get = images.get.bind(images);
  images.get = async (repository, digest, options?: { range?: ByteRange }) => {
    const start = options?.range?.start ?? 0;
    const bytes = (await text((await get(repository, digest))!)).slice(start);
    const stream = () => {
      reads.push(start > 0 ? `${digest} from ${start}` : digest);
      return new Blob([bytes]).stream();
    };
    return { size: bytes.length, stream };
  };
  return { images, reads };
}

contentTest("layers are fetched once and stay while the cache keeps them", async (fixture) => {
  const { content, open, collect } = fixture;
  const layer = bytesOf(1_500_000);
  const digest = digestOf(layer);
  const { images, reads } = await imageWith(layer);
  await using first = await open();
  const read = async ({ parts }: typeof first) => {
    const { source, repository } = await parts.through(images).resolve("base");
    return await text((await source.get(repository, digest))!);
  };
  const [one, two] = await Promise.all([read(first), read(first)]);
  assert.deepEqual(one, layer);
  assert.deepEqual(two, layer);
  await collect();
  await using second = await open();
  assert.deepEqual(await read(second), layer);
  assert.deepEqual(reads.splice(0), [digest]);
  const [shelf] = second.parts.shelves;
  const [item] = await shelf.items();
  assert.deepEqual([item.id, item.size, item.held], [digest, layer.length, false]);
  {
    using _pin = shelf.pin!();
    await read(second);
    assert.equal((await shelf.items())[0].held, true);
    assert.equal(await shelf.remove(digest), false);
  }
  assert.equal(await shelf.remove(digest), true);
  assert.deepEqual(await shelf.items(), []);
  await collect();
  assert.equal(await content.info(digest), undefined);
  assert.deepEqual(reads, []);
  assert.deepEqual(await read(second), layer);
  assert.deepEqual(reads, [digest]);
});

contentTest(
  "one server's layers stay when another drops the same",
  async ({ open, collect, content }) => {
    const layer = bytesOf(1000);
    const digest = digestOf(layer);
    const { images } = await imageWith(layer);
    await using mine = await open("mine");
    await using yours = await open("yours");
    for (const { parts } of [mine, yours]) {
      const { source, repository } = await parts.through(images).resolve("base");
      await source.get(repository, digest);
    }
    await mine.parts.shelves[0].remove(digest);
    await collect();
    assert.ok(await content.info(digest));
    assert.equal((await yours.parts.shelves[0].items()).length, 1);
  },
);

contentTest("a fetch that broke off asks for the rest alone, or is dropped", async (fixture) => {
  const layer = bytesOf(3_000_000);
  const digest = digestOf(layer);
  const { images, reads } = await imageWith(layer);
  await using opened = await fixture.open();
  const [shelf] = opened.parts.shelves;
  const { source, repository } = await opened.parts.through(images).resolve("base");
  const whole = images.get;
  const broken = () =>
    Promise.resolve({ size: layer.length, stream: () => cutOff(layer, 2_500_000) });
  const breakOff = async () => {
    images.get = broken;
    await assert.rejects(source.get(repository, digest), /cut off/);
    images.get = whole;
    const [part] = await shelf.items();
    assert.equal(part.size, 2 << 20);
    return part.id;
  };
  await breakOff();
  assert.deepEqual(await text((await source.get(repository, digest))!), layer);
  assert.deepEqual(reads, [`${digest} from ${2 << 20}`]);
  assert.equal(await shelf.remove(digest), true);
  await fixture.collect();
  const id = await breakOff();
  assert.equal(await shelf.remove(id), true);
  assert.deepEqual(await shelf.items(), []);
});

function manifestOf(config: Uint8Array, layers: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const describe = (mediaType: string, bytes: Uint8Array) => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  });
  const manifest: Manifest = {
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: describe(MEDIA.config, config),
    layers: layers.map((bytes) => describe(MEDIA.layerTar, bytes)),
  };
  return new TextEncoder().encode(JSON.stringify(manifest));
}

contentTest("an image stays whole while it has a name, and no longer", async (fixture) => {
  const { client, content, open, collect } = fixture;
  await using opened = await open();
  const { imageStore } = opened.parts;
  const config = new TextEncoder().encode(`{"made":${++made}}`);
  const shared = bytesOf(5000), old = bytesOf(6000), young = bytesOf(7000);
  const put = async (layers: Uint8Array<ArrayBuffer>[], name: string) => {
    const manifest = manifestOf(config, layers);
    await using sink = await imageStore.open();
    for (const bytes of [config, ...layers]) {
      const descriptor = { digest: digestOf(bytes), size: bytes.length };
      if (await sink.hasBlob("", descriptor.digest)) continue;
      await sink.putBlob("", descriptor, await streamOf(bytes));
      // Nothing refers to it yet.
      await collect();
    }
    await sink.putManifest("", MEDIA.manifest, manifest, [name]);
    return digestOf(manifest);
  };
  const find = (bytes: Uint8Array) =>
    imageStore.find({ digest: digestOf(bytes), size: bytes.length });
  assert.equal(await find(young), undefined);
  const there = async (...blobs: (Uint8Array | Digest)[]) => {
    const found = blobs.map((blob) =>
      content.info(typeof blob === "string" ? blob : digestOf(blob))
    );
    return (await Promise.all(found)).map((info) => info !== undefined);
  };
  const name = "registry.example:5000/app:1";
  const first = await put([shared, old], name);
  await collect();
  assert.deepEqual(await there(first, config, shared, old), [true, true, true, true]);
  const second = await put([shared, young], name);
  await collect();
  assert.deepEqual(await there(first, old), [false, false]);
  assert.deepEqual(await there(second, config, shared, young), [true, true, true, true]);
  assert.deepEqual(await text((await find(young))!), young);
  const { images } = await client.call(Images.list, {}, "Cannot list images");
  assert.deepEqual(
    images.map(({ name, target }) => [name, target.digest, target.mediaType]),
    [[name, second, MEDIA.manifest]],
  );
});

contentTest(
  "a containerd that is killed keeps what it had of a write",
  async ({ content, write }) => {
    const bytes = bytesOf(3_500_000);
    const descriptor = { digest: digestOf(bytes), size: bytes.length };
    let at = 0;
    const source = new ReadableStream<Uint8Array>({
      async pull(controller) {
        // Each piece is acknowledged before the next is asked for.
        if (at === 2 << 20) await peer.kill9();
        controller.enqueue(bytes.slice(at, at += 1 << 20));
      },
    }, { highWaterMark: 0 });
    const killed = write(descriptor, { open: () => Promise.resolve(source), ranges: true });
    await assert.rejects(killed, { code: "unavailable" });
    await peer.start();
    const asked: number[] = [];
    const open = (from: number) => {
      asked.push(from);
      return streamOf(bytes.slice(from));
    };
    await write(descriptor, { open, ranges: true });
    assert.deepEqual(asked, [2 << 20]);
    assert.deepEqual(await text(await content.body(descriptor)), bytes);
  },
);

contentTest(
  "what a crash left half put goes at the next start",
  async ({ content, open, collect }) => {
    const layer = bytesOf(1000);
    const digest = digestOf(layer);
    await using first = await open();
    // Never disposed of: its process is gone.
    const sink = await first.parts.imageStore.open();
    await sink.putBlob("", { digest, size: layer.length }, await streamOf(layer));
    await collect();
    assert.ok(await content.info(digest));
    await using _second = await open();
    await collect();
    assert.equal(await content.info(digest), undefined);
  },
);

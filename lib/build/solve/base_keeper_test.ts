/** Layers that are stored while they are unpacked: fetched once, and no burden where that goes wrong. */
import assert from "node:assert/strict";
import { MemoryImages } from "../../../test/contract/builder_fixture.ts";
import { silent } from "../../base/log.ts";
import { digestOf } from "../../oci/digest.ts";
import type { BlobBody } from "../../oci/image.ts";
import type { ResolvedImage } from "../../oci/resolver.ts";
import type { Digest } from "../../oci/types.ts";
import { keepBase } from "./base_keeper.ts";

const signal = new AbortController().signal;
const layerOf = (fill: number) => new Uint8Array(300_000).fill(fill);
const LAYERS = [1, 2, 3].map(layerOf);
const DIGESTS = LAYERS.map((layer) => digestOf(layer));

/** A registry that counts what is fetched from it, in pieces. */
class Remote extends MemoryImages {
  readonly fetched: Digest[] = [];
  /** Breaks off in the middle of this one. */
  broken?: Digest;

  override async get(repository: string, digest: Digest): Promise<BlobBody | undefined> {
    const body = await super.get(repository, digest);
    const bytes = this.blobs.get(digest)!;
    return body && {
      size: body.size,
      stream: () => {
        this.fetched.push(digest);
        let at = 0;
        return new ReadableStream({
          pull: (controller) => {
            if (this.broken === digest && at > 100_000) throw new Error("connection lost");
            controller.enqueue(bytes.slice(at, at += 50_000));
            if (at >= bytes.length) controller.close();
          },
        }, { highWaterMark: 0 });
      },
    };
  }
}

async function fixture(own = new MemoryImages()) {
  const remote = new Remote();
  await remote.add("base", {
    os: "linux",
    architecture: "amd64",
    rootfs: { type: "layers", diff_ids: DIGESTS },
  }, LAYERS);
  const image: ResolvedImage = await remote.resolve("base");
  const kept = keepBase(image, { sink: own, source: own, repository: "app" }, {
    log: silent,
    signal,
  })!;
  const read = async (digest: Digest) => {
    const body = await kept.image.source.get("base", digest, { signal });
    return new Uint8Array(await new Response(body!.stream() as BodyInit).arrayBuffer());
  };
  return { remote, own, image, kept, read };
}

Deno.test("each layer is fetched once, and stands in the own registry", async () => {
  const { remote, own, kept, read } = await fixture();
  for (const [index, digest] of DIGESTS.entries()) {
    assert.deepEqual(await read(digest), LAYERS[index]);
  }
  await kept.settled();
  assert.deepEqual(remote.fetched, DIGESTS);
  assert.deepEqual([...own.blobs.keys()], DIGESTS);
  assert.equal(own.puts, 3);
});

Deno.test("what is there is not fetched, and the own registry's images are left alone", async () => {
  const own = new MemoryImages();
  own.blobs.set(DIGESTS[0], LAYERS[0]);
  const { remote, image, kept, read } = await fixture(own);
  assert.deepEqual(await read(DIGESTS[0]), LAYERS[0]);
  assert.deepEqual(await read(DIGESTS[1]), LAYERS[1]);
  await kept.settled();
  assert.deepEqual(remote.fetched, [DIGESTS[1]]);
  const place = { sink: remote, source: remote, repository: "app" };
  assert.equal(keepBase(image, place, { log: silent, signal }), undefined);
});

Deno.test("a download that breaks, and one that nobody reads on, leave nothing", async () => {
  for (const first of [0, 1]) {
    const { remote, own, kept, read } = await fixture();
    if (first === 1) await read(DIGESTS[0]);
    remote.broken = DIGESTS[first];
    await assert.rejects(read(DIGESTS[first]), /connection lost/);
    await kept.settled();
    assert.deepEqual([...own.blobs.keys()], DIGESTS.slice(0, first));
  }
  for (const begun of [false, true]) {
    const { own, kept } = await fixture();
    const body = await kept.image.source.get("base", DIGESTS[0], { signal });
    const reader = body!.stream().getReader();
    if (begun) await reader.read();
    await reader.cancel(new Error("enough"));
    await kept.settled();
    assert.equal(own.blobs.size, 0);
  }
});

Deno.test("a registry that takes nothing keeps nobody from unpacking", async () => {
  class Full extends MemoryImages {
    override putBlob(): Promise<void> {
      return Promise.reject(new Error("full"));
    }
  }
  const { own, kept, read } = await fixture(new Full());
  for (const [index, digest] of DIGESTS.entries()) {
    assert.deepEqual(await read(digest), LAYERS[index]);
  }
  await kept.settled();
  assert.equal(own.blobs.size, 0);
});

/** The engine's own images: what every backend that shows them and takes them does. */
import assert from "node:assert/strict";
import { familiarName } from "../../lib/oci/archive_docker.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import type { ImageSource } from "../../lib/oci/image.ts";
import { hostPlatform } from "../../lib/oci/platform.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import { type Manifest, MEDIA } from "../../lib/oci/types.ts";
import type { DeployBackendUnderTest, Test } from "./deploy_suite.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const allOf = (stream: ReadableStream<Uint8Array>) =>
  new Response(stream as ReadableStream<Bytes>).bytes();

/** An image of one layer with one file. */
async function smallImage(content: string) {
  const body = new TextEncoder().encode(content);
  const layer = await allOf(writeTar([{ path: "file", type: "file", body }]));
  const config = encode({
    ...hostPlatform(),
    config: { Cmd: ["/file"] },
    rootfs: { type: "layers", diff_ids: [digestOf(layer)] },
  });
  const described = (mediaType: string, bytes: Uint8Array) => ({
    mediaType,
    digest: digestOf(bytes),
    size: bytes.length,
  });
  const manifest = encode({
    schemaVersion: 2,
    mediaType: MEDIA.manifest,
    config: described(MEDIA.config, config),
    layers: [described(MEDIA.layerTar, layer)],
  });
  const blobs = new Map([config, layer].map((bytes) => [digestOf(bytes), bytes]));
  const read: string[] = [];
  const source: ImageSource = {
    resolve: () =>
      Promise.resolve({ descriptor: described(MEDIA.manifest, manifest), bytes: manifest }),
    stat: (_repository, digest) => {
      const bytes = blobs.get(digest);
      return Promise.resolve(bytes && { size: bytes.length });
    },
    get(_repository, digest) {
      read.push(digest);
      const bytes = blobs.get(digest);
      const stream = () => ReadableStream.from([bytes!]);
      return Promise.resolve(bytes && { size: bytes.length, stream });
    },
    async *tags() {},
    async *referrers() {},
  };
  return { source, digest: digestOf(manifest), layer: digestOf(layer), config, read };
}

export function deployImages(test: Test, under: DeployBackendUnderTest): void {
  const { backend } = under;

  test(
    "images: one that is loaded is listed and read, by tag and by digest",
    ["images", "load"],
    async () => {
      const { source, digest, layer, config, read } = await smallImage("loaded\n");
      const load = (...names: string[]) =>
        backend().caps.load!({ source, repository: "any", digest, names });
      await load("contract-loaded:v1");
      assert.ok(read.includes(layer));
      read.length = 0;
      await load("contract-loaded:v1", "contract-loaded:v2");
      assert.ok(!read.includes(layer), "what the engine has is not read again");
      const check = async () => {
        const { reader, repositories, ready } = backend().caps.images!;
        await ready?.();
        const names = await Array.fromAsync(repositories());
        assert.deepEqual(names, names.toSorted());
        // Some engines show complete names.
        const shown = names.find((name) => familiarName(name) === familiarName("contract-loaded"));
        assert.ok(shown, names.join(" "));
        assert.deepEqual(await Array.fromAsync(reader.tags(shown)), ["v1", "v2"]);
        const found = (await reader.resolve("contract-loaded", "v1"))!;
        assert.equal(digestOf(found.bytes), found.descriptor.digest);
        const manifest = JSON.parse(new TextDecoder().decode(found.bytes)) as Manifest;
        assert.equal(manifest.config.digest, digestOf(config));
        for (const { digest, size } of [manifest.config, ...manifest.layers]) {
          assert.deepEqual(await reader.stat("contract-loaded", digest), { size });
          const body = (await reader.get("contract-loaded", digest))!;
          assert.equal(digestOf(await allOf(body.stream())), digest);
          const part =
            (await reader.get("contract-loaded", digest, { range: { start: 1, end: 4 } }))!;
          assert.equal((await allOf(part.stream())).length, 4);
        }
        const again = await reader.resolve("contract-loaded", found.descriptor.digest);
        assert.deepEqual(again?.bytes, found.bytes);
        assert.equal(await reader.resolve("contract-loaded", "v9"), undefined);
        assert.equal(await reader.resolve("contract-missing", "v1"), undefined);
        assert.deepEqual(await Array.fromAsync(reader.tags("contract-missing")), []);
        return found.descriptor.digest;
      };
      const first = await check();
      await under.reopen();
      assert.equal(await check(), first);
    },
  );

  test("images: a name moves to the image that is loaded last", ["images", "load"], async () => {
    const seen = new Set<string | undefined>();
    for (const content of ["one\n", "two\n"]) {
      const { source, digest } = await smallImage(content);
      const names = ["contract-moved:v1"];
      await backend().caps.load!({ source, repository: "any", digest, names });
      const { reader } = backend().caps.images!;
      seen.add((await reader.resolve("contract-moved", "v1"))?.descriptor.digest);
    }
    assert.equal(seen.size, 2);
  });
}

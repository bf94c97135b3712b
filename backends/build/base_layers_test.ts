/** A base image of another registry whose layers go to the own one: each of its blobs is fetched once. */
import assert from "node:assert/strict";
import { silent } from "../../lib/base/log.ts";
import type { ResolvedManifest } from "../../lib/oci/image.ts";
import type { ResolvedImage } from "../../lib/oci/resolver.ts";
import type { Manifest } from "../../lib/oci/types.ts";
import { createRemoteRegistry } from "../../lib/remote/registry.ts";
import { createImageResolver } from "../../lib/server/images.ts";
import { build, imagesWithBase, MemoryImages } from "../../test/contract/builder_fixture.ts";
import { openEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";
import { type FakeRegistry, startFakeRegistry } from "../../test/peers/fake_registry.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

/** The own registry in memory; other names are those of registries that are asked over the network. */
class Registries extends MemoryImages {
  #resolver = createImageResolver({
    local: { source: this, sink: this },
    isOwn: (host) => host === "own.example",
    ownHost: () => "own.example",
    remote: (host) => createRemoteRegistry({ host, userAgent: "test", log: silent }),
  });

  override resolve(repository: string, reference: string): Promise<ResolvedManifest | undefined>;
  override resolve(name: string, options?: object): Promise<ResolvedImage>;
  override async resolve(
    name: string,
    more?: string | object,
  ): Promise<ResolvedManifest | ResolvedImage | undefined> {
    return typeof more === "string"
      ? await super.resolve(name, more)
      : await this.#resolver.resolve(name, more);
  }

  override target(name: string) {
    return this.#resolver.target(name);
  }
}

/** An image of four layers in a registry of its own. */
async function publish(folder: string): Promise<FakeRegistry> {
  const registry = startFakeRegistry();
  const layers = ["one", "two", "three"].map((name) => ({ [name]: name.repeat(100_000) }));
  const { blobs, manifests } = await imagesWithBase(folder, { layers });
  for (const [digest, bytes] of blobs) registry.blobs.set(digest, bytes);
  const [bytes] = manifests.values();
  registry.manifests.set("team/base/latest", {
    type: "application/vnd.oci.image.manifest.v1+json",
    bytes,
  });
  return registry;
}

/** Blobs that were fetched, and how often. */
function fetches(registry: FakeRegistry): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { line } of registry.seen.splice(0)) {
    const digest = /^GET \S+\/blobs\/(\S+)$/.exec(line)?.[1];
    if (digest !== undefined) counts.set(digest, (counts.get(digest) ?? 0) + 1);
  }
  return counts;
}

Deno.test({
  name: "base layers: fetched once for unpacking and pushing, not at all a second time",
  ignore,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-base-" });
    await using registry = await publish(folder);
    const images = new Registries();
    await using fixture = await openEngine(folder, images);
    const files = { Dockerfile: `FROM ${registry.host}/team/base\nRUN cat /one > /copy` };
    await build(fixture.builder, files);
    const { manifest } = await images.image("own.example/result") as { manifest: Manifest };
    const base = manifest.layers.slice(0, 4).map(({ digest }) => digest);
    const counts = fetches(registry);
    assert.deepEqual(base.map((digest) => counts.get(digest)), [1, 1, 1, 1]);
    assert.equal(counts.size, 5, "the layers and the config");
    for (const { digest } of manifest.layers) assert.ok(images.blobs.has(digest), digest);

    const other = { Dockerfile: `FROM ${registry.host}/team/base\nRUN cat /two > /copy` };
    await build(fixture.builder, other, { tags: ["other"] });
    const again = fetches(registry);
    assert.deepEqual(base.filter((digest) => again.has(digest)), []);
    await fixture.assertClean();
  },
});

Deno.test({
  name: "base layers: stages that the result does not take are not kept",
  ignore,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-base-" });
    await using registry = await publish(folder);
    const images = new Registries();
    await using fixture = await openEngine(folder, images);
    await build(fixture.builder, {
      Dockerfile: [
        `FROM ${registry.host}/team/base AS tools`,
        "RUN cat /one > /copy",
        "FROM scratch",
        "COPY --from=tools /copy /",
      ].join("\n"),
    });
    const { manifest } = await images.image("own.example/result") as { manifest: Manifest };
    assert.equal(images.blobs.size, manifest.layers.length + 1);
    await fixture.assertClean();
  },
});

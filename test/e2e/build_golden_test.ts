/**
 * The same Dockerfiles as BuildKit built (test/golden/buildkit): configuration and file tree have to be
 * what it made. Its results are kept as files; generate.ts there makes them again. With
 * SVC_TEST_BUILDKIT=1 docker's BuildKit builds them now, beside svc (docker.ts there says what it needs).
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { createRuncExecutor } from "../../backends/build/runc.ts";
import { silent } from "../../lib/base/log.ts";
import type { Builder } from "../../lib/build/builder.ts";
import { closeIdleWorkers } from "../../lib/base/worker_pool.ts";
import { createBuilder } from "../../lib/build/engine.ts";
import { stepNetworks } from "../../lib/build/networks.ts";
import type { NamedContext } from "../../lib/build/inputs.ts";
import { writeTar } from "../../lib/oci/tar_write.ts";
import { createRuntime } from "../../lib/runtime/runc.ts";
import { createSnapshotter } from "../../lib/snapshot/create.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import { imagesWithBase, type MemoryImages } from "../contract/builder_fixture.ts";
import { BASE_CREATED, type Case, type ContextFiles, tarEntries } from "../golden/buildkit/case.ts";
import { CASES } from "../golden/buildkit/cases.ts";
import { openReference } from "../golden/buildkit/docker.ts";
import { listImage, type Listing } from "../golden/buildkit/listing.ts";
import { startServers } from "../golden/buildkit/servers.ts";
import { requireTools } from "./harness.ts";

const { ignore } = requireTools({
  root: true,
  commands: ["runc", "git", "xz", "bzip2"],
  files: ["/bin/busybox"],
});

const GOLDEN = join(import.meta.dirname!, "../golden/buildkit/expected");

function contextsOf(test: Case): Record<string, NamedContext> {
  const one = (value: string | ContextFiles): NamedContext => {
    if (typeof value !== "string") return { kind: "tar", stream: writeTar(tarEntries(value)) };
    const image = /^docker-image:\/\/(.*)/.exec(value);
    return image ? { kind: "image", name: image[1] } : { kind: "url", url: value };
  };
  return Object.fromEntries(
    Object.entries(test.contexts ?? {}).map(([name, value]) => [name, one(value)]),
  );
}

async function listingOf(builder: Builder, images: MemoryImages, test: Case): Promise<Listing> {
  const secrets = test.secrets ?? {};
  await builder.build({
    tags: ["result"],
    dockerfile: "Dockerfile",
    buildArgs: test.buildArgs ?? {},
    labels: test.labels ?? {},
    target: test.target,
    platform: test.platform,
    noCache: false,
    context: writeTar(tarEntries({ ...test.files, Dockerfile: test.dockerfile })),
    contexts: contextsOf(test),
    addHosts: test.addHosts,
    network: test.network,
    allow: test.dockerfile.includes("--network=host") ? ["network.host"] : [],
    secrets: {
      get: (id) =>
        Promise.resolve(id in secrets ? new TextEncoder().encode(secrets[id]) : undefined),
    },
  }, { onEvent: () => {} });
  const { manifest, config } = await images.image("result");
  const base = await images.image("base");
  const open = (layers: typeof manifest.layers) =>
    layers.map(({ digest }) => new Blob([images.blobs.get(digest)!]).stream());
  return await listImage(config, open(manifest.layers), open(base.manifest.layers));
}

/** On this machine's processor, as if the golden file had been made here. */
function native(text: string): string {
  return Deno.build.arch === "aarch64" ? text.replaceAll("amd64", "arm64") : text;
}

function compare(test: Case, actual: Listing, golden: Listing): void {
  if (test.deliberate?.history) golden.config.history = actual.config.history;
  for (const path of test.deliberate?.paths ?? []) {
    delete actual.tree[path];
    delete golden.tree[path];
  }
  // What the clock of a build gave has no time in the golden file; ours may have one that is fixed.
  for (const [path, entry] of Object.entries(actual.tree)) {
    const known = golden.tree[path];
    if (entry && known && known.mtime === undefined) delete entry.mtime;
    // BuildKit's layers hold no attributes but capabilities; ours have all that an image may have.
    for (const name of Object.keys(entry?.xattrs ?? {})) {
      if (name.startsWith("user.")) delete entry!.xattrs![name];
    }
    if (entry?.xattrs && Object.keys(entry.xattrs).length === 0) delete entry.xattrs;
  }
  assert.deepEqual(actual, golden);
}

Deno.test({
  name: "Dockerfiles give what BuildKit makes of them",
  ignore,
  fn: async (t) => {
    const folder = await Deno.makeTempDir({ prefix: "svc-golden-" });
    try {
      const images = await imagesWithBase(folder, { created: BASE_CREATED });
      const runtime = await createRuntime({ binary: "runc", root: `${folder}/state` });
      const snapshotter = await createSnapshotter({
        root: `${folder}/snapshots`,
        driver: "auto",
        log: silent,
      });
      await using builder = await createBuilder({
        root: `${folder}/build`,
        snapshotter,
        executor: createRuncExecutor({ runtime, bundles: `${folder}/build/bundles` }),
        networks: stepNetworks("none"),
        entitlements: ["network.host"],
        images,
        log: silent,
        concurrency: 4,
        unpack: (image, options) => unpackImage(snapshotter, image, options),
      });
      await using servers = await startServers(`${folder}/served`);
      const live = Deno.env.get("SVC_TEST_BUILDKIT") === "1";
      const reference = live
        ? await openReference(await Deno.makeTempDir({ dir: folder }))
        : undefined;
      for (const test of CASES) {
        await t.step(test.name, async () => {
          const filled = servers.fill(test);
          const golden = JSON.parse(
            reference
              ? servers.blank(JSON.stringify(await reference.build(filled)))
              : native(await Deno.readTextFile(join(GOLDEN, `${test.name}.json`))),
          );
          if (test.fails) {
            assert.ok(golden.fails || test.deliberate, "BuildKit builds it");
            await assert.rejects(listingOf(builder, images, filled));
            return;
          }
          const actual = await listingOf(builder, images, filled);
          compare(test, JSON.parse(servers.blank(JSON.stringify(actual))), golden);
        });
      }
    } finally {
      closeIdleWorkers();
      await Deno.remove(folder, { recursive: true });
    }
  },
});

/** The view of an engine's images, and loading into it, against real daemons with each kind of image store. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { DeployImages } from "../../backends/deploy/shared/engine_api/images.ts";
import type { SvcError } from "../../lib/base/errors.ts";
import { silent } from "../../lib/base/log.ts";
import { DockerClient } from "../../lib/docker/client.ts";
import { dockerEndpoint } from "../../lib/docker/endpoint.ts";
import type { ImageApi } from "../../lib/docker/images/api.ts";
import { engineApi } from "../../lib/docker/images/engine.ts";
import { ExportCache } from "../../lib/docker/images/export_cache.ts";
import { ImageLoader } from "../../lib/docker/images/load.ts";
import { EngineImages } from "../../lib/docker/images/reader.ts";
import { digestOf } from "../../lib/oci/digest.ts";
import type { ImageSource } from "../../lib/oci/image.ts";
import { openLayout } from "../../lib/oci/layout.ts";
import { directoryFiles } from "../../lib/oci/layout_files.ts";
import type { ResolvedImage } from "../../lib/oci/resolver.ts";
import type { Manifest } from "../../lib/oci/types.ts";
import { requireTools, runTool } from "../e2e/harness.ts";
import { type BaseImageOptions, writeBaseLayout } from "../peers/base_image.ts";
import { type DockerdOptions, type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { layoutImages } from "../peers/layout_images.ts";
import { UNSTABLE_READY } from "../peers/namespace.ts";

const DAEMONS: DockerdOptions[] = [
  { version: "20.10" },
  { version: "28" },
  { version: "28", store: "containerd" },
];

interface Fixture {
  folder: string;
  daemon: DockerdPeer;
  client: DockerClient;
  api: ImageApi;
  loader: ImageLoader;
  /** A reader with a cache of its own. */
  reader(): EngineImages;
  /** An image in a layout of its own, to load from. */
  image(name: string, options?: BaseImageOptions): Promise<{ source: ImageSource; digest: string }>;
}

async function withDaemon(
  options: DockerdOptions,
  work: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-images-" });
  try {
    await using daemon = await startDockerd(join(folder, "docker"), options);
    await using client = new DockerClient({ endpoint: dockerEndpoint({ host: daemon.host }) });
    const api = engineApi(client);
    let caches = 0;
    await work({
      folder,
      daemon,
      client,
      api,
      loader: new ImageLoader(api),
      reader: () =>
        new EngineImages(
          api,
          new ExportCache({
            folder: join(folder, `cache-${caches++}`),
            export: (id, signal) => api.export(id, signal),
            log: silent,
          }),
        ),
      async image(name, made) {
        const layout = join(folder, name);
        const digest = await writeBaseLayout(layout, name, made);
        return { source: await openLayout(directoryFiles(layout)), digest };
      },
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Reads all that a client pulls; gives the digest. */
async function pulled(images: ImageSource, repository: string, reference: string): Promise<string> {
  const found = await images.resolve(repository, reference);
  assert.ok(found, `${repository} ${reference}`);
  const { config, layers } = JSON.parse(new TextDecoder().decode(found.bytes)) as Manifest;
  for (const { digest, size } of [config, ...layers]) {
    assert.deepEqual(await images.stat(repository, digest), { size });
    const body = (await images.get(repository, digest))!.stream();
    const bytes = await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).bytes();
    assert.equal(digestOf(bytes), digest);
  }
  return found.descriptor.digest;
}

const labels = (at: number) => ({ [`file-${at}`]: `content ${at}` });

for (const options of DAEMONS) {
  const files = options.version === "28" ? [UNSTABLE_READY] : [];
  const commands = ["dockerd", "docker", "busybox", "unshare", "nsenter"];
  const keeps = options.store === "containerd";
  Deno.test({
    name: `images of dockerd ${options.version}, ${options.store ?? "graph"} store`,
    ignore: requireTools({ root: true, commands, files }).ignore,
    sanitizeOps: false,
    sanitizeResources: false,
    fn: (t) =>
      withDaemon(options, async ({ folder, daemon, client, api, loader, reader, image }) => {
        const base = await image("base");
        const docker = async (...args: string[]) => (await daemon.docker(...args)).stdout.trim();
        const images = reader();

        await t.step("an image is loaded once, under its names", async () => {
          const names = ["app:v1", "ghcr.io/org/tool:latest"];
          await loader.load({ ...base, repository: "", names });
          assert.equal(
            await docker("images", "-q", "app:v1"),
            await docker("images", "-q", "ghcr.io/org/tool"),
          );
          await loader.load({ ...base, repository: "", names: [...names, "app:v2"] });
          assert.deepEqual(await Array.fromAsync(images.tags("app")), ["v1", "v2"]);
          const repositories = await Array.fromAsync(images.repositories());
          assert.deepEqual(repositories, ["app", "ghcr.io/org/tool"]);
        });

        await t.step("its digest is the same at every read, from every cache", async () => {
          const digest = await pulled(images, "app", "v1");
          assert.equal(await pulled(reader(), "app", "v2"), digest);
          assert.equal(await pulled(images, "ghcr.io/org/tool", "latest"), digest);
          assert.equal(await pulled(images, "app", digest), digest);
          if (keeps) {
            assert.equal(digest, base.digest);
            assert.equal(await pulled(reader(), "app", digest), digest);
          }
          for (const repository of ["library/app", "docker.io/library/app"]) {
            assert.equal(await pulled(images, repository, "v1"), digest);
          }
          assert.equal(await api.keepsManifests(), keeps);
        });

        await t.step("layers that the engine has are not read", async () => {
          const more = await image("more", { layers: [{ "etc/more": "more" }] });
          const read: string[] = [];
          const source: ImageSource = {
            ...more.source,
            get(repository, digest, call) {
              read.push(digest);
              return more.source.get(repository, digest, call);
            },
          };
          await loader.load({ source, digest: more.digest, repository: "", names: ["more:v1"] });
          // The config, and the upper layer; a store that keeps manifests gets all.
          assert.equal(read.length, keeps ? 3 : 2);
          await pulled(images, "more", "v1");
        });

        await t.step("an image of 100 layers", async () => {
          const layers = Array.from({ length: 99 }, (_, at) => labels(at));
          const many = await image("many", { layers });
          await loader.load({ ...many, repository: "", names: ["many:v1"] });
          await pulled(images, "many", "v1");
        });

        await t.step("layers that are packed with zstd", async () => {
          const packed = await image("zstd", {
            compression: "zstd",
            layers: [{ "etc/zstd": "packed" }],
          });
          await loader.load({ ...packed, repository: "", names: ["zstd:v1"] });
          await pulled(images, "zstd", "v1");
        });

        await t.step("who may not pull runs nothing by the ids of an image's layers", async () => {
          const hidden = await image("hidden", { layers: [{ "etc/secret": "secret" }] });
          await loader.load({ ...hidden, repository: "", names: ["hidden:v1"] });
          const { source, digest } = hidden;
          const resolved = await layoutImages(join(folder, "hidden")).resolve("hidden");
          const find = (more: Partial<ResolvedImage>) => {
            const resolve = () => Promise.resolve({ ...resolved, apart: true as const, ...more });
            const images = { ...layoutImages(folder), resolve };
            const options = { mayPull: false, onProgress: () => {} };
            return new DeployImages(client).find("theirs.test/app:v1", images, options);
          };
          const nothing = { ...source, get: () => Promise.resolve(undefined) };
          await assert.rejects(find({ source: nothing }), { code: "blob_unknown" });
          const { source: other } = await image("other", { layers: [{ "etc/other": "other" }] });
          await assert.rejects(find({ source: other }), { code: "blob_unknown" });
          const found = await find({});
          assert.equal(found.id, keeps ? digest : resolved.manifest.config.digest);
        });

        await t.step("an image of another platform", async () => {
          const foreign = await image("foreign", { architecture: "s390x" });
          await loader.load({ ...foreign, repository: "", names: ["foreign:v1"] });
          await pulled(images, "foreign", "v1");
        });

        await t.step("an image without layers", async () => {
          const context = join(folder, "empty");
          await Deno.mkdir(context);
          await Deno.writeTextFile(join(context, "Dockerfile"), "FROM scratch\nLABEL a=b\n");
          await runTool("docker", ["-H", daemon.host, "build", "-q", "-t", "none:v1", context], {
            env: { DOCKER_BUILDKIT: "0" },
          });
          // The other stores do not export one: docker save fails with the same words.
          if (!keeps) return await assert.rejects(images.resolve("none", "v1"), /empty export/);
          const { descriptor, bytes } = (await images.resolve("none", "v1"))!;
          assert.equal(digestOf(bytes), descriptor.digest);
          const { config, layers } = JSON.parse(new TextDecoder().decode(bytes)) as Manifest;
          assert.deepEqual(layers ?? [], []);
          assert.deepEqual(await images.stat("none", config.digest), { size: config.size });
        });

        await t.step("what is removed there is missing here", async () => {
          const digest = await pulled(images, "more", "v1");
          await docker("rmi", "more:v1");
          assert.equal(await images.resolve("more", "v1"), undefined);
          assert.deepEqual(await Array.fromAsync(images.tags("more")), []);
          assert.equal(await images.resolve("more", digest), undefined);
          // The layers' bytes are in other images; a loader that counted on this one sends all.
          const more = await image("more", { layers: [{ "etc/more": "more" }] });
          await loader.load({ ...more, repository: "", names: ["more:v2"] });
          assert.equal(await pulled(images, "more", "v2"), digest);
        });

        await t.step("a daemon that is away is told, and works when it is back", async () => {
          await daemon.stop();
          await assert.rejects(images.resolve("app", "v1"), { code: "unavailable" });
          await assert.rejects(Array.fromAsync(images.tags("app")), { code: "unavailable" });
          await daemon.start();
          await pulled(images, "app", "v1");
        });

        await t.step("a daemon that dies in the middle of an export", async () => {
          // More than the buffers between the two hold.
          const data = new Uint8Array(64 << 20);
          const big = await image("big", { layers: [{ data }] });
          await loader.load({ ...big, repository: "", names: ["big:v1"] });
          const dying = async function* (archive: ReadableStream<Uint8Array>) {
            let first = true;
            for await (const chunk of archive) {
              yield chunk;
              if (first) await daemon.kill9();
              first = false;
            }
          };
          const cache = new ExportCache({
            folder: join(folder, "dying"),
            export: async (id, signal) => ReadableStream.from(dying(await api.export(id, signal))),
            log: silent,
          });
          await assert.rejects(
            new EngineImages(api, cache).resolve("big", "v1"),
            ({ code }: SvcError) => code === "unavailable" || code === "upstream_failed",
          );
          assert.deepEqual([...Deno.readDirSync(join(folder, "dying"))], []);
          await daemon.start();
          await pulled(images, "big", "v1");
        });
      }),
  });
}

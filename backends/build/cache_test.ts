/** Caches that leave their machine: built on one engine, nothing run on another. */
import assert from "node:assert/strict";
import { parseCacheFrom, parseCacheTo } from "../../lib/api/build_cache_spec.ts";
import { parseOutput } from "../../lib/api/build_output.ts";
import type { BuildRequest } from "../../lib/build/builder.ts";
import type { Manifest } from "../../lib/oci/types.ts";
import { build, type Files } from "../../test/contract/builder_fixture.ts";
import {
  type EngineFixture,
  openEngine,
  openNewEngine,
} from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

const FILES: Files = {
  Dockerfile: [
    "FROM base AS build",
    "COPY f /src/f",
    "RUN --mount=type=cache,id=store,target=/c tr a-z A-Z < /src/f > /out; cp /out /c/kept",
    "FROM base AS other",
    "RUN echo other > /other",
    "FROM base",
    "RUN echo first > /first && rm /srv/index.html",
    "COPY --from=build /out /out",
    "COPY --from=other /other /other",
    "WORKDIR /w",
  ].join("\n"),
  f: "words\n",
};

/** A machine that has built nothing; the registry is the same. */
const elsewhere = async ({ images }: EngineFixture) =>
  await openEngine(await Deno.makeTempDir({ prefix: "svc-build-" }), images);

const from = (...texts: string[]): Partial<BuildRequest> => ({
  cacheFrom: texts.map(parseCacheFrom),
});
const to = (...texts: string[]): Partial<BuildRequest> => ({ cacheTo: texts.map(parseCacheTo) });

const test = (name: string, fn: (first: EngineFixture) => Promise<void>) =>
  Deno.test({
    name: `cache: ${name}`,
    ignore,
    fn: async () => {
      await using first = await openNewEngine();
      await fn(first);
      await first.assertClean();
    },
  });

test("a registry's cache makes another machine run nothing, and gives the same image", async (first) => {
  for (const mode of ["min", "max"]) {
    const ref = `cache-${mode}`;
    const spec = `type=registry,ref=${ref},mode=${mode}`;
    const { result } = await build(first.builder, FILES, to(spec));
    assert.deepEqual(result.caches!.map(({ name }) => name), [`${ref}:latest`]);
    const { records } = JSON.parse(
      new TextDecoder().decode(
        first.images.blobs.get(
          (JSON.parse(
            new TextDecoder().decode(first.images.manifests.get(`${ref}:latest`)),
          ) as Manifest).config.digest,
        ),
      ),
    );
    // The result's own four steps; with max those of the other two stages too.
    assert.equal(records.length, mode === "min" ? 4 : 7);
    await using second = await elsewhere(first);
    const puts = first.images.puts;
    const again = await build(second.builder, FILES, { ...from(ref), tags: ["again"] });
    assert.deepEqual([again.result.ran, again.result.digest], [0, result.digest]);
    assert.equal(first.images.puts, puts, "every layer was there already");
    const third = await build(second.builder, FILES, { tags: [] });
    assert.equal(third.result.ran, 0, "it is this machine's own cache now");
    // A changed input runs what depends on it; with max the step before it is there.
    const changed = { ...FILES, Dockerfile: `${FILES.Dockerfile}\nRUN echo more > /more` };
    const more = await build(second.builder, changed, { ...from(ref), tags: [] });
    assert.equal(more.result.ran, 1);
    await second.assertClean();
  }
});

test("an image carries its cache inline, whatever its layers are packed like", async (first) => {
  const { result } = await build(first.builder, FILES, {
    ...to("type=inline"),
    outputs: [parseOutput("type=image,compression=zstd")],
  });
  await using second = await elsewhere(first);
  const again = await build(second.builder, FILES, {
    ...from("type=registry,ref=result"),
    ...to("type=inline"),
    outputs: [parseOutput("type=image,compression=zstd")],
  });
  assert.deepEqual([again.result.ran, again.result.digest], [0, result.digest]);
  await second.assertClean();
});

test("a folder's cache travels as an archive; cache mounts travel with it", async (first) => {
  const { result } = await build(
    first.builder,
    FILES,
    to("type=local,dest=x,mounts=true,mode=max"),
  );
  const taken = await first.builder.archives!.take(result.caches![0].id!);
  await using second = await elsewhere(first);
  const sent = await second.builder.archives!.put(taken!.stream, new AbortController().signal);
  const step = "RUN --mount=type=cache,id=store,target=/c cat /c/kept";
  const reading = { Dockerfile: `FROM base\n${step}\n` };
  const spec = `type=local,id=${sent.id},mounts=true`;
  const { output } = await build(second.builder, reading, from(spec));
  assert.equal(output, "WORDS\n");
  const again = await build(second.builder, FILES, from(spec));
  assert.equal(again.result.ran, 0);
  // What is there already is not replaced.
  const own = { Dockerfile: `FROM base\n${step.replace("cat /c/kept", "echo own > /c/kept")}\n` };
  await build(second.builder, own, from(spec));
  const kept = { Dockerfile: `FROM base\n${step}; true\n` };
  assert.equal((await build(second.builder, kept, from(spec))).output, "own\n");
  await second.assertClean();
});

test("what is missing or damaged is a warning, and the steps run", async (first) => {
  const { images } = first;
  await build(first.builder, FILES, to("type=registry,ref=cache"));
  const manifest = JSON.parse(
    new TextDecoder().decode(images.manifests.get("cache:latest")),
  ) as Manifest;
  await using second = await elsewhere(first);
  for (const { digest } of manifest.layers) images.blobs.delete(digest);
  const { result, events } = await build(second.builder, FILES, from("cache", "nowhere"));
  assert.ok(result.ran > 0);
  const warnings = events.flatMap((event) => event.type === "warning" ? [event.message] : []);
  assert.ok(
    warnings.some((text) => /nowhere: Cannot import cache/.test(text)),
    warnings.join("\n"),
  );
  assert.ok(warnings.some((text) => /imported cache is of no use/.test(text)), warnings.join("\n"));
  images.blobs.set(manifest.config.digest, new TextEncoder().encode("not json"));
  await using third = await elsewhere(first);
  assert.ok((await build(third.builder, FILES, from("cache"))).result.ran > 0);
  const refuse = {
    ...to("type=registry,ref=cache,compression=zstd,ignore-error=true"),
    tags: [],
  };
  images.putBlob = () => Promise.reject(new Error("full"));
  const unstored = await build(third.builder, FILES, refuse);
  assert.ok(
    unstored.events.some((event) =>
      event.type === "warning" && /export cache: full/.test(event.message)
    ),
  );
  await assert.rejects(
    build(third.builder, FILES, {
      ...to("type=registry,ref=cache,compression=zstd"),
      tags: [],
    }),
    /full/,
  );
});

/** What every builder has to do (lib/build/builder.ts): Dockerfiles in, images and events out. */
import assert from "node:assert/strict";
import { gunzipSync } from "node:zlib";
import type { BuildEvent } from "../../lib/api/build.ts";
import { SvcError } from "../../lib/base/errors.ts";
import type { Builder } from "../../lib/build/builder.ts";
import { TarParser } from "../../lib/oci/tar_parser.ts";
import type { TarHeader } from "../../lib/oci/tar.ts";
import { build, type Files, type MemoryImages, namesOf, outputOf } from "./builder_fixture.ts";

export interface BuilderFixture extends AsyncDisposable {
  builder: Builder;
  images: MemoryImages;
  /** Throws where a build left mounts, containers or files. */
  assertClean(): Promise<void>;
}

export interface BuilderSuite {
  name: string;
  ignore?: boolean;
  open(): Promise<BuilderFixture>;
}

export interface LayerEntry extends TarHeader {
  text: string;
}

/** Entries of a layer by path. */
export function layerEntries(images: MemoryImages, digest: string): Map<string, LayerEntry> {
  const found = new Map<string, LayerEntry>();
  let current: LayerEntry | undefined;
  const parser = new TarParser({
    entry: (header) => void found.set(header.path, current = { ...header, text: "" }),
    data: (chunk) => void (current!.text += new TextDecoder().decode(chunk)),
    hole: () => {},
    end: () => {},
  });
  parser.push(gunzipSync(images.blobs.get(digest)!));
  parser.finish();
  return found;
}

/** Layers that the build put on top of the base. */
export async function ownLayers(images: MemoryImages, name = "result") {
  const { manifest } = await images.image(name);
  const base = (await images.image("base")).manifest.layers.map(({ digest }) => digest);
  return manifest.layers.filter(({ digest }) => !base.includes(digest))
    .map(({ digest }) => layerEntries(images, digest));
}

/** Paths of a layer but for /etc: a folder that was mounted in may be named, its time that of the base. */
function withoutMountPoints(layer: Map<string, LayerEntry>): string[] {
  const etc = layer.get("etc");
  if (etc) assert.deepEqual([etc.type, etc.mtime], ["directory", 0]);
  return [...layer.keys()].filter((path) => path !== "etc").sort();
}

async function failure(work: Promise<unknown>): Promise<SvcError> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof SvcError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "the build did not fail" });
}

export function builderContract(suite: BuilderSuite): void {
  const contract = (name: string, work: (fixture: BuilderFixture) => Promise<void>) =>
    Deno.test({
      name: `${suite.name}: ${name}`,
      ignore: suite.ignore,
      fn: async () => {
        await using fixture = await suite.open();
        await work(fixture);
        await fixture.assertClean();
      },
    });

  contract("builds, caches, and runs nothing the second time", async ({ builder, images }) => {
    const files: Files = {
      Dockerfile: [
        "FROM base",
        "ARG WHO=nobody",
        "ENV GREETING=hello",
        "WORKDIR /app",
        "COPY src/ ./",
        'RUN echo "$GREETING $WHO" > greeting; cat one',
        'CMD ["cat", "/app/greeting"]',
        "EXPOSE 80",
        "USER user",
      ].join("\n"),
      "src/one": "first file\n",
      "src/two": { data: "#!/bin/sh\n", mode: 0o755 },
      "README.md": "not copied",
    };
    const first = await build(builder, files, { buildArgs: { WHO: "world" } });
    assert.equal(first.result.ran, 3);
    assert.match(first.output, /first file/);
    const { config, manifest, descriptor } = await images.image("result");
    assert.equal(descriptor.digest, first.result.digest);
    assert.equal(manifest.config.digest, first.result.imageId);
    assert.deepEqual(first.result.names, ["result:latest"]);
    assert.equal(config.rootfs.diff_ids.length, manifest.layers.length);
    assert.equal(config.config?.User, "user");
    assert.equal(config.config?.WorkingDir, "/app");
    assert.deepEqual(config.config?.Cmd, ["cat", "/app/greeting"]);
    assert.deepEqual(config.config?.Env, ["PATH=/bin:/usr/bin:/sbin", "GREETING=hello"]);
    const filled = config.history!.filter((entry) => !entry.empty_layer);
    assert.equal(filled.length, manifest.layers.length);
    const [, copied, ran] = await ownLayers(images);
    assert.equal(copied.get("app/one")?.text, "first file\n");
    assert.equal(copied.get("app/two")?.mode, 0o755);
    assert.equal(copied.get("app/two")?.uid, 0);
    assert.equal(copied.has("README.md"), false);
    assert.deepEqual(withoutMountPoints(ran), ["app", "app/greeting"]);
    assert.equal(ran.get("app/greeting")?.text, "hello world\n");
    const again = await build(builder, files, { buildArgs: { WHO: "world" } });
    assert.deepEqual([again.result.ran, again.result.cached], [0, 3]);
    assert.equal(again.result.digest, first.result.digest);
    assert.equal(namesOf(again.events, "cached").length, 4, "three steps and the base");
    assert.equal(again.output, "");
    const other = await build(builder, files, { buildArgs: { WHO: "you" } });
    assert.deepEqual([other.result.ran, other.result.cached], [1, 2], "only RUN sees the ARG");
  });

  contract("a changed file runs again only what depends on it", async ({ builder }) => {
    const files = (a: string, b: string): Files => ({
      Dockerfile: [
        "FROM base AS one",
        "COPY a /a",
        "RUN echo one ran; cp /a /out",
        "FROM base AS two",
        "COPY b /b",
        "RUN echo two ran; echo fixed > /out",
        "FROM base",
        "COPY --from=one /out /one",
        "COPY --from=two /out /two",
        "RUN echo last ran",
      ].join("\n"),
      a,
      b,
    });
    const first = await build(builder, files("1", "2"));
    assert.equal(first.result.ran, 7);
    const changed = await build(builder, files("changed", "2"));
    assert.match(changed.output, /one ran[^]*last ran/);
    assert.doesNotMatch(changed.output, /two ran/);
    assert.deepEqual([changed.result.ran, changed.result.cached], [5, 2]);
    // What the stage gives is the same as before: what copies it need not run.
    const same = await build(builder, files("changed", "other"));
    assert.match(same.output, /two ran/);
    assert.doesNotMatch(same.output, /last ran/);
    assert.deepEqual([same.result.ran, same.result.cached], [2, 5]);
    assert.equal(same.result.digest, changed.result.digest);
  });

  contract(
    "a reproducible build: the same input gives the same digests",
    async ({ builder, images }) => {
      const files: Files = {
        Dockerfile: [
          "FROM base",
          "COPY f /f",
          "RUN mkdir /d && date > /dev/null && echo x > /d/x && ln -s x /d/l && rm /srv/index.html",
          "COPY <<EOF /inline",
          "text",
          "EOF",
          "FROM scratch",
          "COPY --from=0 / /all/",
        ].join("\n"),
        f: "content",
      };
      const began = Date.now();
      const reproducible = { reproducible: true };
      const first = await build(builder, files, reproducible);
      await new Promise((resolve) => setTimeout(resolve, 1100));
      const again = await build(builder, files, { ...reproducible, noCache: true });
      assert.equal(again.result.ran, 4);
      assert.equal(again.result.digest, first.result.digest);
      const created = async () => (await images.image("result")).config.created;
      assert.equal(await created(), "1970-01-01T00:00:00Z", "the context's newest file");
      const given = { buildArgs: { SOURCE_DATE_EPOCH: "1234567890" } };
      const dated = await build(builder, files, { ...reproducible, ...given });
      assert.notEqual(dated.result.digest, first.result.digest);
      assert.equal(await created(), "2009-02-13T23:31:30Z");
      assert.equal((await build(builder, files, given)).result.digest, dated.result.digest);
      // Else times are what they are, and the cache gives the same again.
      const real = await build(builder, files);
      assert.ok(Date.parse((await created())!) >= began);
      const cached = await build(builder, files);
      assert.deepEqual([cached.result.ran, cached.result.digest], [0, real.result.digest]);
      const anew = await build(builder, files, { noCache: true });
      assert.notEqual(anew.result.digest, real.result.digest);
    },
  );

  contract("a failing step: line, command, output, exit code", async ({ builder }) => {
    const events: BuildEvent[] = [];
    const error = await failure(build(builder, {
      Dockerfile: "FROM base\n\nRUN echo fine\nRUN echo about to fail; \\\n  exit 3\nRUN never\n",
    }, { onEvent: (event) => events.push(event) }));
    assert.equal(error.code, "build_failed");
    assert.equal(
      error.message,
      "Cannot build Dockerfile:4: RUN echo about to fail; exit 3: exit code 3",
    );
    assert.equal(error.detail?.line, 4);
    assert.equal(error.detail?.exitCode, 3);
    assert.match(String(error.detail?.output), /about to fail/);
    assert.equal(namesOf(events, "failed").length, 1);
    assert.match(outputOf(events), /fine/);
    const cases: [string, RegExp][] = [
      ['RUN ["no-such-thing"]', /^Cannot build Dockerfile:2: .*: exit code 127$/],
      [
        "COPY missing /x",
        /^Cannot build Dockerfile:2: COPY missing \/x: "missing" is not in the build context/,
      ],
      ["RUN --mount=type=secret,id=s,required true", /secret s is required and was not given/],
      ["COPY hidden /x", /"hidden" is left out by \.dockerignore/],
      ["COPY --from=base /nope /x", /"\/nope" is not in base/],
      ["USER ghost\nRUN true", /Dockerfile:3: RUN true: .*ghost/],
    ];
    for (const [line, message] of cases) {
      const refused = await failure(build(builder, {
        Dockerfile: `FROM base\n${line}\nRUN echo after`,
        ".dockerignore": "hidden",
        hidden: "x",
      }));
      assert.equal(refused.code, "build_failed");
      assert.match(refused.message, message);
    }
    const nothing = await failure(build(builder, { other: "x" }));
    assert.equal(nothing.code, "dockerfile_invalid");
  });

  contract("stages that need nothing of each other run at once", async ({ builder }) => {
    const wait = (own: string, other: string) =>
      `RUN --mount=type=cache,target=/c,id=meet touch /c/${own}; ` +
      `for i in $(seq 600); do test -e /c/${other} && exit 0; sleep 0.1; done; exit 1`;
    const { result } = await build(builder, {
      Dockerfile: [
        "FROM base AS a",
        wait("a", "b"),
        "FROM base AS b",
        wait("b", "a"),
        "FROM scratch",
        "COPY --from=a /etc/passwd /a",
        "COPY --from=b /etc/passwd /b",
      ].join("\n"),
    });
    assert.equal(result.ran, 4);
  });

  contract("mounts: caches persist, binds and tmpfs leave nothing", async ({ builder, images }) => {
    const files = (n: number): Files => ({
      Dockerfile: [
        "FROM base",
        `RUN --mount=type=cache,target=/deep/cache echo run ${n} >> /deep/cache/log; ` +
        "cat /deep/cache/log",
        "RUN --mount=type=bind,source=d,target=/in,rw --mount=type=tmpfs,target=/t " +
        "cat /in/f && echo scribble > /in/f && echo x > /t/x && cat /in/f",
        "RUN --mount=from=base,source=/etc,target=/theirs cat /theirs/group; " +
        "test ! -e /in && test ! -e /t && test ! -e /deep",
      ].join("\n"),
      "d/f": "bound\n",
    });
    const first = await build(builder, files(1));
    assert.match(first.output, /run 1\n/);
    assert.match(first.output, /bound\nscribble\n/);
    assert.match(first.output, /root:x:0:/);
    const layers = await ownLayers(images);
    assert.deepEqual(layers.flatMap(withoutMountPoints), [], "a trace of a mount is in a layer");
    const second = await build(builder, files(2));
    assert.match(second.output, /run 1\nrun 2\n/);
  });

  contract("heredocs, shells, scratch, wildcards, owners and ADD", async ({ builder, images }) => {
    const archive = await new Response(
      new Blob([
        (await import("../../scripts/build/tar.ts")).tar([{
          path: "unpacked/file",
          data: "from tar",
        }]),
      ]).stream().pipeThrough(new CompressionStream("gzip")),
    ).bytes();
    await build(builder, {
      Dockerfile: [
        "FROM base AS work",
        'SHELL ["/bin/sh", "-ec"]',
        "RUN <<EOF",
        "echo one > /one",
        "echo two > /two",
        "EOF",
        "RUN <<EOF",
        "#!/bin/cat",
        "EOF",
        "COPY --chown=user --chmod=u=rw,go= *.txt /owned/",
        "ADD archive.tgz /added/",
        "COPY --parents d/e/f /parents/",
        "FROM scratch",
        "COPY --from=work /one /two /files/",
        "COPY --from=work /owned /owned",
        "COPY --from=work /added /parents /",
        'ENTRYPOINT ["/x"]',
      ].join("\n"),
      "a.txt": "a",
      "b.txt": "b",
      "d/e/f": "f",
      "archive.tgz": { data: archive },
    });
    const { config, manifest } = await images.image("result");
    assert.equal(manifest.layers.length, 3);
    assert.deepEqual(config.config?.Entrypoint, ["/x"]);
    const [files, owned, added] = await ownLayers(images);
    assert.equal(files.get("files/one")?.text, "one\n");
    assert.deepEqual(
      ["owned/a.txt", "owned/b.txt"].map((path) => {
        const { uid, gid, mode } = owned.get(path)!;
        return [uid, gid, mode];
      }),
      [[1000, 1000, 0o600], [1000, 1000, 0o600]],
    );
    assert.equal(added.get("unpacked/file")?.text, "from tar");
    assert.equal(added.get("d/e/f")?.text, "f");
  });

  contract("builds at the same time share a step", async ({ builder }) => {
    const files: Files = { Dockerfile: "FROM base\nRUN echo shared; sleep 0.5\n" };
    const both = await Promise.all([build(builder, files), build(builder, files)]);
    assert.equal(both[0].result.ran + both[1].result.ran, 1);
    assert.equal(both[0].result.digest, both[1].result.digest);
  });

  contract("a cancelled build lets go; who shares its step goes on", async ({ builder }) => {
    const abort = new AbortController();
    const gate = (script: string): Files => ({
      Dockerfile: `FROM base\nRUN --mount=type=cache,id=gate,target=/g ${script}\n`,
    });
    const files = gate("until [ -e /g/go ]; do echo waiting; sleep 0.1; done; echo over");
    const begin = (signal?: AbortSignal) => {
      const { promise: begun, resolve } = Promise.withResolvers<void>();
      const onEvent = (event: BuildEvent) => event.type === "output" && resolve();
      const built = build(builder, files, { signal, onEvent });
      built.catch(() => {/* awaited below */});
      return { built, begun: Promise.race([begun, built]) };
    };
    const cancelled = begin(abort.signal);
    await cancelled.begun;
    const other = begin();
    await other.begun;
    abort.abort();
    await assert.rejects(cancelled.built, { name: "AbortError" });
    await build(builder, gate("touch /g/go"));
    const { output, result } = await other.built;
    assert.match(output, /over/);
    assert.equal(result.ran, 0, "it shared the step");
    const alone = new AbortController();
    const began = performance.now();
    await assert.rejects(
      build(builder, { Dockerfile: "FROM base\nRUN echo begun; sleep 1000\n" }, {
        signal: alone.signal,
        onEvent: (event) => event.type === "output" && alone.abort(),
      }),
      { name: "AbortError" },
    );
    assert.ok(performance.now() - began < 500_000, "it waited for the step");
  });

  contract("much output does not fill the memory", async ({ builder }) => {
    const { events } = await build(builder, {
      Dockerfile: "FROM base\nRUN yes 0123456789012345678901234567890123456789 | head -c 8000000\n",
    });
    const bytes = outputOf(events).length;
    assert.ok(bytes < 3 << 20, `${bytes} bytes of output`);
    assert.match(outputOf(events), /output clipped/);
  });
}

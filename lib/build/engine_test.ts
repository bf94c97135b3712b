/** The engine on folders and a pretended executor: scheduling, and what a step is given. */
import assert from "node:assert/strict";
import { build, type Files, MemoryImages, namesOf } from "../../test/contract/builder_fixture.ts";
import type { BuildEvent } from "../api/build.ts";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import type { ImageConfig } from "../oci/types.ts";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { blocksOf } from "../oci/tar_blocks.ts";
import { writeTar } from "../oci/tar_write.ts";
import type { SnapshotInfo, Snapshotter } from "../snapshot/snapshotter.ts";
import type { Builder } from "./builder.ts";
import { createBuilder } from "./engine.ts";
import { stepNetworks } from "./networks.ts";
import type { Executor, Step } from "./executor.ts";

/** Snapshots as plain copies, "mounted" by moving them: no privilege needed. */
class FolderSnapshots {
  readonly driver = "folder";
  readonly committed = new Map<string, string>();
  readonly active = new Map<string, string>();
  #next = 0;

  constructor(readonly root: string) {}

  #new = () => `${this.root}/${this.#next++}`;

  stat = (name: string) =>
    Promise.resolve(this.committed.has(name) ? { name } as SnapshotInfo : undefined);

  prepare = async (id: string, parent?: string) => {
    const folder = this.#new();
    const from = parent === undefined ? undefined : this.committed.get(parent)!;
    if (from === undefined) await Deno.mkdir(folder);
    else await new Deno.Command("cp", { args: ["-a", from, folder] }).output();
    this.active.set(id, folder);
    return {
      id,
      mount: (target: string) => Deno.rename(folder, target),
      unmount: async (target: string) => {
        await Deno.rename(target, folder).catch(() => {});
      },
    };
  };

  commit = (active: { id: string }, name: string) => {
    this.committed.set(name, this.active.get(active.id)!);
    this.active.delete(active.id);
    return Promise.resolve();
  };

  alias = (name: string, existing: string) => {
    this.committed.set(name, this.committed.get(existing)!);
    return Promise.resolve();
  };

  remove = (name: string) => {
    this.active.delete(name);
    this.committed.delete(name);
    return Promise.resolve();
  };

  view = async (name: string, target: string) => {
    await Deno.symlink(this.committed.get(name)!, target);
    return { [Symbol.asyncDispose]: () => Deno.remove(target) };
  };

  diff = (name: string) =>
    blocksOf(writeTar([{ path: name.slice(0, 50), type: "directory" as const }]));

  sync = () => Promise.resolve();

  touch = () => Promise.resolve();

  use = () => ({ [Symbol.dispose]: () => {} });

  prune = (name: string) => Promise.resolve(this.committed.delete(name));

  async *list() {
    for (const name of this.committed.keys()) {
      yield { name, kind: "committed", created: new Date(0), used: new Date(0) } as SnapshotInfo;
    }
  }
}

interface Fixture extends AsyncDisposable {
  builder: Builder;
  images: MemoryImages;
  snapshots: FolderSnapshots;
  steps: Step[];
}

const BASE: ImageConfig = {
  os: "linux",
  architecture: "amd64",
  config: { Env: ["PATH=/bin:/usr/bin:/sbin"] },
  rootfs: { type: "layers", diff_ids: [`sha256:${"1".repeat(64)}`] },
};

type Run = (step: Step, signal: AbortSignal, say: () => void) => Promise<number> | number;

async function open(
  run: Run,
  concurrency = 4,
  limits: { maxUnpackedBytes?: number } = {},
): Promise<Fixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-engine-" });
  await Deno.mkdir(`${folder}/snapshots`);
  const snapshots = new FolderSnapshots(`${folder}/snapshots`);
  const images = new MemoryImages();
  await images.add("base", BASE, [new TextEncoder().encode("layer")]);
  const steps: Step[] = [];
  const executor: Executor = {
    run: async (step, { signal, onOutput }) => {
      steps.push(step);
      const say = () => onOutput("stdout", new TextEncoder().encode("."));
      const exitCode = await run(step, signal!, say);
      signal!.throwIfAborted();
      return { exitCode };
    },
    recover: () => Promise.resolve(),
  };
  const builder = await createBuilder({
    root: `${folder}/build`,
    snapshotter: snapshots as unknown as Snapshotter,
    executor,
    networks: stepNetworks("none"),
    images,
    log: silent,
    concurrency,
    ...limits,
    unpack: async () => {
      const active = await snapshots.prepare("unpacking");
      await Deno.mkdir(`${snapshots.active.get("unpacking")}/etc`);
      await Deno.writeTextFile(`${snapshots.active.get("unpacking")}/etc/group`, "root:x:0:\n");
      await snapshots.commit(active, "image");
      return "image";
    },
  });
  return {
    builder,
    images,
    snapshots,
    steps,
    [Symbol.asyncDispose]: async () => {
      await builder[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** The shell form's text. */
const command = (step: Step) => step.args.at(-1)!;

/** Resolves when aborted, as a killed process does. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<number>((resolve) => {
    if (signal.aborted) resolve(137);
    signal.addEventListener("abort", () => resolve(137), { once: true });
  });

const stages = (count: number): Files => ({
  Dockerfile: [
    ...Array.from({ length: count }, (_, i) => `FROM base AS s${i}\nRUN step ${i}`),
    "FROM scratch",
    ...Array.from({ length: count }, (_, i) => `COPY --from=s${i} /etc/group /${i}`),
  ].join("\n"),
});

Deno.test("independent steps run at once, but never more than allowed", async () => {
  let now = 0;
  let most = 0;
  const both = Promise.withResolvers<void>();
  await using fixture = await open(async () => {
    most = Math.max(most, ++now);
    if (now === 2) both.resolve();
    await both.promise;
    await new Promise((resolve) => setTimeout(resolve, 30));
    now--;
    return 0;
  }, 2);
  const { result } = await build(fixture.builder, stages(5));
  assert.equal(most, 2);
  assert.equal(result.ran, 10);
});

Deno.test("the first failure cancels the rest and is what is told", async () => {
  const cancelled: string[] = [];
  let begun = 0;
  const all = Promise.withResolvers<void>();
  await using fixture = await open(async (step, signal) => {
    if (++begun === 3) all.resolve();
    if (command(step) === "step 1") {
      await all.promise;
      return 7;
    }
    const code = await untilAborted(signal);
    cancelled.push(command(step));
    return code;
  });
  const events: BuildEvent[] = [];
  await assert.rejects(
    build(fixture.builder, stages(3), { onEvent: (event) => events.push(event) }),
    (error: unknown) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.message, "Cannot build Dockerfile:4: RUN step 1: exit code 7");
      return true;
    },
  );
  assert.deepEqual(cancelled.sort(), ["step 0", "step 2"], "they had ended when the build did");
  assert.deepEqual(namesOf(events, "failed"), ["[s1 1/1] RUN step 1"]);
  assert.equal(fixture.snapshots.active.size, 0);
});

Deno.test("a step is given its time, its proxies, its mounts; the image is not", async () => {
  await using fixture = await open((step) => {
    const cache = step.mounts.find(({ target }) => target === "/cache")!;
    Deno.writeTextFileSync(`${cache.source}/seen`, "x");
    return 0;
  });
  const { images, steps, builder } = fixture;
  const files: Files = {
    Dockerfile: [
      "FROM base",
      "ENV A=1",
      "USER app:1",
      "WORKDIR /",
      "RUN --mount=type=cache,target=/cache,ro --mount=type=bind,source=f,target=/f " +
      "--mount=type=tmpfs,target=/t,size=1m --network=none go",
    ].join("\n"),
    f: "bound",
  };
  await build(builder, files, { buildArgs: { HTTP_PROXY: "http://proxy" } });
  const [step] = steps;
  assert.deepEqual(step.env, [
    "PATH=/bin:/usr/bin:/sbin",
    "A=1",
    "HTTP_PROXY=http://proxy",
    "http_proxy=http://proxy",
  ]);
  assert.deepEqual([step.user, step.network, step.workingDir], ["app:1", "none", "/"]);
  const own = step.mounts.filter(({ target }) => !target.startsWith("/etc/"));
  assert.deepEqual(own.map(({ target, readOnly }) => [target, readOnly]), [
    ["/cache", true],
    ["/f", true],
  ]);
  assert.deepEqual(step.tmpfs, [{ target: "/t", size: 1 << 20 }]);
  const { config } = await images.image("result");
  assert.doesNotMatch(JSON.stringify(config), /proxy|SOURCE_DATE/);
  const again = await build(builder, files, { buildArgs: { HTTP_PROXY: "http://another" } });
  assert.equal(again.result.ran, 0, "a proxy is not part of the key");
  const dated = await build(builder, files, { buildArgs: { SOURCE_DATE_EPOCH: "1000" } });
  assert.equal(dated.result.ran, 1);
  assert.ok(steps[1].env.includes("SOURCE_DATE_EPOCH=1000"));
  const reproducible = await build(builder, files, { reproducible: true });
  assert.equal(reproducible.result.ran, 0, "nothing was given that the step could see");
});

Deno.test("what another build broke is tried again, what a command decided is not", async () => {
  for (const verdict of [true, false]) {
    const begun = Promise.withResolvers<void>();
    const shared = Promise.withResolvers<void>();
    let runs = 0;
    await using fixture = await open(async (_step, _signal, say) => {
      if (++runs > 1) return 0;
      begun.resolve();
      const talk = setInterval(say, 5);
      await shared.promise;
      clearInterval(talk);
      if (verdict) return 3;
      throw new SvcError("context_invalid", "Cannot read from the caller: it went away");
    });
    const first = assert.rejects(build(fixture.builder, stages(1)));
    await begun.promise;
    // It hears the step that the first build began: they share it.
    const onEvent = (event: BuildEvent) => event.type === "output" && shared.resolve();
    const second = build(fixture.builder, stages(1), { onEvent });
    if (verdict) await assert.rejects(second, /exit code 3/);
    else assert.equal((await second).result.ran, 2);
    await first;
    assert.equal(runs, verdict ? 1 : 2);
  }
});

Deno.test("a server that stops cancels its builds and waits for them", async () => {
  const began = Promise.withResolvers<void>();
  let ended = false;
  await using fixture = await open(async (_step, signal) => {
    began.resolve();
    const code = await untilAborted(signal);
    await new Promise((resolve) => setTimeout(resolve, 20));
    ended = true;
    return code;
  });
  const running = build(fixture.builder, stages(1));
  const refused = assert.rejects(running, { code: "cancelled" });
  await began.promise;
  await fixture.builder[Symbol.asyncDispose]();
  assert.equal(ended, true);
  await refused;
  await assert.rejects(build(fixture.builder, stages(1)), { code: "cancelled" });
});

Deno.test("a build without tags makes the image and publishes nothing", async () => {
  await using fixture = await open(() => 0);
  const known = fixture.images.manifests.size;
  const { result } = await build(fixture.builder, stages(1), { tags: [] });
  assert.match(result.digest, /^sha256:[0-9a-f]{64}$/);
  assert.deepEqual(result.names, []);
  assert.deepEqual([fixture.images.puts, fixture.images.manifests.size], [0, known]);
  await assert.rejects(
    build(fixture.builder, { Dockerfile: "FROM base\nRUN x" }, { tags: ["Bad Name"] }),
    { code: "reference_invalid" },
  );
  assert.equal(fixture.steps.length, 1, "a bad tag is refused before anything runs");
});

Deno.test("an archive that unpacks to more than allowed ends the build, and nothing is kept", async () => {
  await using fixture = await open(() => 0, 4, { maxUnpackedBytes: 1 << 20 });
  const tar = (size: number) =>
    new Response(writeTar([{ path: "zeros", type: "file", body: new Uint8Array(size) }])).bytes();
  const bomb = await tar(8 << 20);
  const Dockerfile = "FROM scratch\nADD bomb /deep/";
  for (const packed of [gzipSync(bomb), zstdCompressSync(bomb)]) {
    assert.ok(packed.length < 64 * 1024);
    await assert.rejects(
      build(fixture.builder, { Dockerfile, bomb: { data: new Uint8Array(packed) } }),
      {
        code: "too_large",
        message: "Cannot build Dockerfile:2: ADD bomb /deep/: Cannot unpack bomb: " +
          "it has more than 1.0 MiB unpacked",
        help: /SVC_MAX_BUILD_UNPACKED_BYTES/,
      },
    );
    assert.deepEqual([fixture.snapshots.active.size, fixture.snapshots.committed.size], [0, 0]);
  }
  const fits = new Uint8Array(gzipSync(await tar(1 << 19)));
  const { result } = await build(fixture.builder, { Dockerfile, bomb: { data: fits } });
  assert.equal(result.ran, 1);
});

Deno.test("a warning tells its rule and its line", async () => {
  await using fixture = await open(() => 0);
  const { events } = await build(fixture.builder, {
    Dockerfile: "FROM base AS Made\nENV A=$NOPE\n",
  }, { allow: ["network.host"], buildArgs: { UNUSED: "1" } });
  assert.deepEqual(events.filter(({ type }) => type === "warning"), [
    {
      type: "warning",
      rule: "StageNameCasing",
      line: 1,
      message: "Stage name Made should be lowercase",
    },
    {
      type: "warning",
      rule: "UndefinedVar",
      line: 2,
      message: "Nothing in the stage sets $NOPE; declare it with ARG NOPE",
    },
    { type: "warning", message: "Build argument UNUSED is not used: no ARG names it" },
  ]);
});

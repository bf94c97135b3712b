/**
 * Builds beside docker's BuildKit, or beside another svc (`SVC_BENCH_BESIDE=EXECUTABLE`, to see what a change
 * costs): the same Dockerfiles and base images, from the same registry, each image pushed; the two take
 * turns. Caches are cleared alike before what is called cold.
 */
import { dirname, join } from "node:path";
import { EXECUTABLE, runTool, startServer } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { startBuildKit } from "./buildkit.ts";
import { type Candidate, interleave, report, type Row, silently } from "./measure.ts";

const program = Deno.readFileSync(Deno.execPath());

/** Content of files as images have it, machine code mostly; no two are the same. */
function filler(bytes: number): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(bytes);
  const shift = Math.floor(Math.random() * (program.length - bytes));
  data.set(program.subarray(shift, shift + bytes));
  // A mark on every page: nothing of it is found by what knows other copies.
  for (let at = 0; at < bytes; at += 4096) {
    crypto.getRandomValues(data.subarray(at, Math.min(bytes, at + 64)));
  }
  return data;
}

const MIB = 2 ** 20;

/** What builds images; those with a name are pushed. */
interface Engine extends AsyncDisposable {
  name: string;
  build(folder: string, name?: string, args?: string[]): Promise<void>;
  /** Everything has to be done again, from the pull on. */
  clear(): Promise<void>;
  /** The most memory that its server had since the last `clear`, in MiB. */
  peak?(): Promise<number>;
}

interface World {
  dir: string;
  /** Where base images come from, "127.0.0.1:PORT". */
  registry: string;
  /** The peer is the last one. */
  engines: Engine[];
}

/** A folder with the files given. */
async function context(dir: string, files: Record<string, string | Uint8Array>): Promise<string> {
  for (const [name, content] of Object.entries(files)) {
    const path = join(dir, name);
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeFile(
      path,
      typeof content === "string" ? new TextEncoder().encode(content) : content,
    );
  }
  return dir;
}

async function svcEngine(name: string, executable: string): Promise<Engine> {
  let server = await startServer({ executable });
  const stop = () => server[Symbol.asyncDispose]();
  return {
    name,
    build: (folder, image, args = []) =>
      silently(executable, ["build", "-q", ...image ? ["-t", image] : [], ...args, folder], {
        SVC_SERVER: server.url,
        SVC_CONFIG: "/nonexistent/config.yaml",
      }),
    async clear() {
      await stop();
      server = await startServer({ executable });
    },
    async peak() {
      const status = await Deno.readTextFile(`/proc/${server.pid}/status`);
      return Number(/^VmHWM:\s+(\d+)/m.exec(status)![1]) / 1024;
    },
    [Symbol.asyncDispose]: stop,
  };
}

async function buildkitEngine(registry: string): Promise<Engine> {
  const buildkit = await startBuildKit();
  console.log(`BuildKit of docker ${buildkit.version}`);
  return {
    name: "BuildKit",
    async build(folder, image, args = []) {
      const tag = `${registry}/${image}`;
      await buildkit.build([...image ? ["-t", tag] : [], ...args, folder]);
      if (image) await buildkit.docker(["push", "--quiet", tag]);
    },
    clear: () => buildkit.clear(),
    [Symbol.asyncDispose]: () => buildkit[Symbol.asyncDispose](),
  };
}

/** One row a kind of work, each engine in its turn. */
function each(
  { engines }: World,
  rounds: number,
  run: (engine: Engine) => Promise<void>,
  { before, others = [] }: { before?: (engine: Engine) => Promise<void>; others?: Candidate[] } =
    {},
): Promise<Row[]> {
  const candidates = engines.map((engine): Candidate => ({
    name: engine.name,
    before: before && (() => before(engine)),
    run: () => run(engine),
  }));
  return interleave([...candidates.slice(0, -1), ...others, candidates.at(-1)!], rounds);
}

async function tellPeaks({ engines }: World): Promise<void> {
  for (const { name, peak } of engines) {
    if (peak) {
      console.log(`  ${name}, peak of the server's memory: ${(await peak()).toFixed(0)} MiB`);
    }
  }
}

const cold = (base: string) =>
  `FROM ${base} AS one
WORKDIR /one
COPY one.bin .
RUN cp one.bin two.bin
RUN sha256sum *.bin > sums
FROM ${base} AS two
WORKDIR /two
COPY two.bin .
RUN cp two.bin three.bin && mkdir -p deep/er && cp two.bin deep/er/
RUN find . -type f > list
FROM ${base}
ENV A=b
COPY --from=one /one /one
COPY --from=two /two /two
RUN ls -lR /one /two > /list
CMD ["cat", "/list"]
`;

async function coldBuild(world: World): Promise<void> {
  const folder = join(world.dir, "cold");
  const before = async (engine: Engine) => {
    await engine.clear();
    await context(folder, {
      Dockerfile: cold(`${world.registry}/base:1`),
      "one.bin": filler(50 * MIB),
      "two.bin": filler(50 * MIB),
    });
  };
  const rows = await each(world, 5, (engine) => engine.build(folder, "cold:1"), { before });
  report("cold: 3 stages, 12 steps, 300 MB of layers, pushed", rows);
  await tellPeaks(world);
}

const NUMBERS = [1, 2, 3, 4];

/** Four stages that do the same, never from the cache, and an image of their results. */
async function stages(
  world: World,
  work: string,
  rounds: number,
  ...others: Candidate[]
): Promise<Row[]> {
  const all = NUMBERS.map((n) =>
    `FROM ${world.registry}/base:1 AS s${n}\nARG NONCE\n${work}; echo ${n} $NONCE > /out\n`
  );
  const copies = NUMBERS.map((n) => `COPY --from=s${n} /out /out${n}\n`);
  const folder = await context(join(world.dir, "stages"), {
    Dockerfile: `${all.join("")}FROM scratch\n${copies.join("")}`,
  });
  const args = () => ["--build-arg", `NONCE=${crypto.randomUUID()}`];
  return await each(world, rounds, (engine) => engine.build(folder, "stages:1", args()), {
    others,
  });
}

/** Four projects that have nothing in common. */
async function projects(world: World): Promise<string[]> {
  return await Promise.all(NUMBERS.map((n) =>
    context(join(world.dir, `project${n}`), {
      "data.bin": filler(16 * MIB),
      Dockerfile: `FROM ${world.registry}/base:1
COPY data.bin /data/
RUN cp /data/data.bin /data/copy && sha256sum /data/* > /sums
RUN i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done
`,
    })
  ));
}

async function unchangedBuild(world: World): Promise<void> {
  const folder = await context(join(world.dir, "warm"), {
    Dockerfile: cold(`${world.registry}/base:1`),
    "one.bin": filler(50 * MIB),
    "two.bin": filler(50 * MIB),
  });
  report("nothing changed", await each(world, 9, (engine) => engine.build(folder, "warm:1")));
}

async function changedFile(world: World): Promise<void> {
  const files: Record<string, string> = {};
  for (let n = 0; n < 5000; n++) {
    files[`src/d${n % 100}/f${n}.txt`] = `file ${n}\n`.repeat(n % 50);
  }
  const many = await context(join(world.dir, "many"), {
    ...files,
    Dockerfile: `FROM ${world.registry}/base:1
WORKDIR /app
COPY src src
RUN find src -type f | wc -l > count
`,
  });
  let change = 0;
  const touch = async () => {
    await Deno.writeTextFile(join(many, "src/d7/f7.txt"), `change ${change++}\n`);
  };
  report(
    "one source file of 5,000 changed",
    await each(world, 7, (engine) => engine.build(many, "many:1"), { before: touch }),
  );
}

async function independentStages(world: World): Promise<void> {
  const short = "RUN cp /bin/busybox /a\nRUN sha256sum /a > /b\nRUN cat /b >> /a";
  // A build of a fifth of a second spreads by as much as what it is to show: hence so many.
  report("4 independent stages", await stages(world, short, 25));
  // Here most of the time is the loops and sleeps themselves: what is beyond the bare ones is the engine's.
  const work = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; sleep 1";
  const bare = {
    name: "the loops and sleeps bare",
    run: async () =>
      void await Promise.all(NUMBERS.map(() => silently("busybox", ["sh", "-c", work]))),
  };
  report(
    "4 independent stages with loops and sleeps",
    await stages(world, `RUN ${work}`, 5, bare),
  );
}

async function buildsAtOnce(world: World): Promise<void> {
  let folders: string[] = [];
  const before = async () => {
    folders = await projects(world);
  };
  const together = async (engine: Engine) => {
    await Promise.all(folders.map((path, n) => engine.build(path, `p${n}:1`)));
  };
  report("4 builds at once", await each(world, 5, together, { before }));
  await tellPeaks(world);
}

/** Steps that do nothing but start: what a RUN costs. */
async function emptySteps(world: World): Promise<void> {
  const folder = await context(join(world.dir, "steps"), {
    Dockerfile: `FROM ${world.registry}/base:1\nARG NONCE\n${"RUN true\n".repeat(20)}`,
  });
  const args = () => ["--build-arg", `NONCE=${crypto.randomUUID()}`];
  report(
    "20 RUNs that do nothing",
    await each(world, 9, (engine) => engine.build(folder, "steps:1", args())),
  );
}

/** A layer of 337 MB in 20,000 files, pulled from a foreign registry and unpacked. */
async function bigBase(world: World): Promise<void> {
  const layer: Record<string, string | Uint8Array> = {};
  for (let n = 0; n < 20_600; n++) {
    layer[`usr/lib/d${n % 300}/f${n}`] = filler(16 * 1024);
  }
  await pushBase(world.dir, world.registry, "big", [layer]);
  const folder = await context(join(world.dir, "big"), {
    Dockerfile: `FROM ${world.registry}/big:1\nRUN true\n`,
  });
  report(
    "pull and unpack of a 337 MB base layer",
    await each(world, 5, (engine) => engine.build(folder), { before: (engine) => engine.clear() }),
  );
}

async function pushBase(
  dir: string,
  registry: string,
  name: string,
  layers: Record<string, string | Uint8Array>[] = [],
): Promise<void> {
  const layout = join(dir, `layout-${name}`);
  await writeBaseLayout(layout, "1", { layers });
  await runTool("skopeo", [
    "--insecure-policy",
    "copy",
    "--quiet",
    "--dest-tls-verify=false",
    `oci:${layout}:1`,
    `docker://${registry}/${name}:1`,
  ]);
  await Deno.remove(layout, { recursive: true });
}

const GROUPS = {
  cold: coldBuild,
  unchanged: unchangedBuild,
  change: changedFile,
  stages: independentStages,
  together: buildsAtOnce,
  steps: emptySteps,
  base: bigBase,
};

/** `SVC_BENCH_ROWS=cold,change` chooses some of `GROUPS`; all by default. */
export async function buildBeside(): Promise<void> {
  const chosen = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ?? Object.keys(GROUPS);
  const other = Deno.env.get("SVC_BENCH_BESIDE");
  await using registry = await startDockerRegistry();
  await using own = await svcEngine("svc", EXECUTABLE);
  await using peer = other
    ? await svcEngine("other svc", other)
    : await buildkitEngine(registry.host);
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-build-" });
  try {
    const world = { dir, registry: registry.host, engines: [own, peer] };
    await pushBase(dir, registry.host, "base");
    for (const [name, run] of Object.entries(GROUPS)) {
      if (chosen.includes(name)) await run(world);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

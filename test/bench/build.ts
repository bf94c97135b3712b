/**
 * Builds beside docker's BuildKit: the same Dockerfiles and base images, from the same registry, each image
 * pushed; svc and BuildKit take turns. Caches are cleared alike before what is called cold.
 */
import { dirname, join } from "node:path";
import { EXECUTABLE, runTool, type Server, startServer } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { type BuildKit, startBuildKit } from "./buildkit.ts";
import { type Candidate, interleave, median, report, silently } from "./measure.ts";

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

interface World {
  dir: string;
  /** Where base images come from, "127.0.0.1:PORT". */
  registry: string;
  buildkit: BuildKit;
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

const env = (server: Server) => ({
  SVC_SERVER: server.url,
  SVC_CONFIG: "/nonexistent/config.yaml",
});

const svcBuild = (server: Server, name: string, folder: string, ...args: string[]) =>
  silently(EXECUTABLE, ["build", "-q", "-t", name, ...args, folder], env(server));

async function dockerBuild(world: World, name: string, folder: string, ...args: string[]) {
  const tag = `${world.registry}/${name}`;
  await world.buildkit.build(["-t", tag, ...args, folder]);
  await world.buildkit.docker(["push", "--quiet", tag]);
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

/** A server per run of svc; BuildKit's cache pruned: everything has to be done, from the pull on. */
async function coldBuild(world: World): Promise<void> {
  const folder = join(world.dir, "cold");
  let server: Server | undefined;
  const fresh = async () => {
    await context(folder, {
      Dockerfile: cold(`${world.registry}/base:1`),
      "one.bin": filler(50 * MIB),
      "two.bin": filler(50 * MIB),
    });
  };
  const memory: number[] = [];
  const rows = await interleave([{
    name: "svc build",
    before: async () => {
      await server?.[Symbol.asyncDispose]();
      server = await startServer();
      await fresh();
    },
    run: async () => {
      await svcBuild(server!, "cold:1", folder);
      memory.push(await peak(server!));
    },
  }, {
    name: "BuildKit",
    before: async () => {
      await world.buildkit.clear();
      await fresh();
    },
    run: () => dockerBuild(world, "cold:1", folder),
  }], 5);
  await server?.[Symbol.asyncDispose]();
  report("cold: 3 stages, 12 steps, 300 MB of layers, pushed", rows);
  console.log(`  svc serve, peak of memory: ${median(memory).toFixed(0)} MiB`);
}

async function peak(server: Server): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${server.pid}/status`);
  return Number(/^VmHWM:\s+(\d+)/m.exec(status)![1]) / 1024;
}

const NUMBERS = [1, 2, 3, 4];

/** Four stages that do the same, never from the cache, and an image of their results. */
async function stages(world: World, server: Server, work: string, ...others: Candidate[]) {
  const each = NUMBERS.map((n) =>
    `FROM ${world.registry}/base:1 AS s${n}\nARG NONCE\n${work}; echo ${n} $NONCE > /out\n`
  );
  const copies = NUMBERS.map((n) => `COPY --from=s${n} /out /out${n}\n`);
  const folder = await context(join(world.dir, "stages"), {
    Dockerfile: `${each.join("")}FROM scratch\n${copies.join("")}`,
  });
  const args = () => ["--build-arg", `NONCE=${crypto.randomUUID()}`];
  return await interleave([
    { name: "svc build", run: () => svcBuild(server, "stages:1", folder, ...args()) },
    ...others,
    { name: "BuildKit", run: () => dockerBuild(world, "stages:1", folder, ...args()) },
  ], 5);
}

async function warmBuilds(world: World): Promise<void> {
  await using server = await startServer();
  const folder = await context(join(world.dir, "warm"), {
    Dockerfile: cold(`${world.registry}/base:1`),
    "one.bin": filler(50 * MIB),
    "two.bin": filler(50 * MIB),
  });
  const candidates = (name: string, path: string, before?: () => Promise<void>) => [
    { name: "svc build", before, run: () => svcBuild(server, name, path) },
    { name: "BuildKit", before, run: () => dockerBuild(world, name, path) },
  ];
  report("nothing changed", await interleave(candidates("warm:1", folder), 9));

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
    await interleave(candidates("many:1", many, touch), 7),
  );

  const short = "RUN cp /bin/busybox /a\nRUN sha256sum /a > /b\nRUN cat /b >> /a";
  report("4 independent stages", await stages(world, server, short));
  // Here most of the time is the loops and sleeps themselves: what is beyond the bare ones is the engine's.
  const work = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; sleep 1";
  const bare = {
    name: "the loops and sleeps bare",
    run: async () =>
      void await Promise.all(NUMBERS.map(() => silently("busybox", ["sh", "-c", work]))),
  };
  report(
    "4 independent stages with loops and sleeps",
    await stages(world, server, `RUN ${work}`, bare),
  );

  const projects = async () =>
    await Promise.all([1, 2, 3, 4].map((n) =>
      context(join(world.dir, `project${n}`), {
        "data.bin": filler(16 * MIB),
        Dockerfile: `FROM ${world.registry}/base:1
COPY data.bin /data/
RUN cp /data/data.bin /data/copy && sha256sum /data/* > /sums
RUN i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done
`,
      })
    ));
  let folders: string[] = [];
  const prepare = async () => {
    folders = await projects();
  };
  const rows = await interleave([
    {
      name: "svc build",
      before: prepare,
      run: async () => {
        await Promise.all(folders.map((path, n) => svcBuild(server, `p${n}:1`, path)));
      },
    },
    {
      name: "BuildKit",
      before: prepare,
      run: async () => {
        await Promise.all(folders.map((path, n) => dockerBuild(world, `p${n}:1`, path)));
      },
    },
  ], 5);
  report("4 builds at once", rows);
  console.log(`  svc serve, peak of memory over all these: ${(await peak(server)).toFixed(0)} MiB`);
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
  let server: Server | undefined;
  report(
    "pull and unpack of a 337 MB base layer",
    await interleave([{
      name: "svc build",
      before: async () => {
        await server?.[Symbol.asyncDispose]();
        server = await startServer();
      },
      run: () => silently(EXECUTABLE, ["build", "-q", folder], env(server!)),
    }, {
      name: "BuildKit",
      before: () => world.buildkit.clear(),
      run: () => world.buildkit.build([folder]),
    }], 5),
  );
  await server?.[Symbol.asyncDispose]();
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

const GROUPS = { cold: coldBuild, warm: warmBuilds, base: bigBase };

/** `SVC_BENCH_ROWS=cold,warm,base` chooses; all by default. */
export async function buildBeside(): Promise<void> {
  const chosen = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ?? Object.keys(GROUPS);
  await using registry = await startDockerRegistry();
  await using buildkit = await startBuildKit();
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-build-" });
  try {
    const world = { dir, registry: registry.host, buildkit };
    console.log(`BuildKit of docker ${buildkit.version}`);
    await pushBase(dir, registry.host, "base");
    for (const [name, run] of Object.entries(GROUPS)) {
      if (chosen.includes(name)) await run(world);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

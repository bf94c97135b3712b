/**
 * svc on a Docker daemon, beside docker's own client on the same daemon. The daemon has a network namespace of
 * its own, which the bench enters: published ports are reached there. `SVC_BENCH_DOCKERD=28` takes the newer one.
 */
import { join } from "node:path";
import { freePort, runTool, type Server, startServer } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { busyboxFolder, EXAMPLE } from "./example.ts";
import { type Candidate, firstAnswer, interleave, report, silently } from "./measure.ts";

const MANY = 100;

interface World {
  dir: string;
  daemon: DockerdPeer;
  /** With the backend dockerhost on the daemon. */
  server: Server;
  docker(...args: string[]): Promise<void>;
  svc(...args: string[]): Promise<void>;
}

const onDaemon = (daemon: DockerdPeer) => ({
  SVC_DEPLOY_BACKEND: "dockerhost",
  DOCKER_HOST: daemon.host,
});

async function run(server: Server, args: string[]): Promise<void> {
  const { code, stderr } = await server.svc(args);
  if (code !== 0) throw new Error(`svc ${args.join(" ")} exited with ${code}:\n${stderr}`);
}

/** From the command to the first HTTP answer: the page is asked for from the start on, in the same way. */
async function deploys({ dir, docker, svc }: World): Promise<void> {
  await using bare = await startServer();
  await run(bare, ["build", "-t", "busybox:1", await busyboxFolder(dir)]);
  await run(bare, ["build", "-t", "hello:v1", EXAMPLE]);
  const candidate = (
    name: string,
    deploy: (workload: string, publish: string) => Promise<void>,
    remove: (workload: string) => Promise<void>,
  ): Candidate => ({
    name,
    before: () => new Promise((resolve) => setTimeout(resolve, 1000)),
    run: async () => {
      const port = freePort();
      const workload = `bench-${port}`;
      const start = performance.now();
      const [answered] = await Promise.all([
        firstAnswer(`http://127.0.0.1:${port}/`).then(() => performance.now() - start),
        deploy(workload, `${port}:8080`),
      ]);
      await remove(workload);
      return answered;
    },
  });
  report(
    "deploy to first answer",
    await interleave([
      candidate(
        "svc, dockerhost",
        (name, port) => svc("deploy", "hello:v1", "--name", name, "-p", port),
        (name) => svc("rm", name),
      ),
      candidate(
        "svc, bare",
        (name, port) => run(bare, ["deploy", "hello:v1", "--name", name, "-p", port]),
        (name) => run(bare, ["rm", name]),
      ),
      candidate(
        "docker run -d",
        (name, port) => docker("run", "-d", "--name", name, "-p", port, "hello:v1"),
        (name) => docker("rm", "-f", name),
      ),
    ], 9),
  );
}

async function withMany(
  { svc, dir }: World,
  command: string[],
  work: () => Promise<void>,
): Promise<void> {
  const names = Array.from({ length: MANY }, (_, n) => `many-${n}`);
  const spec = join(dir, "many.yaml");
  for (const name of names) {
    await Deno.writeTextFile(
      spec,
      // Process 1 of these does not heed SIGTERM.
      JSON.stringify({ name, image: "busybox:1", command, stopGracePeriod: "0s" }),
    );
    await svc("deploy", "-f", spec);
  }
  try {
    await work();
  } finally {
    for (const name of names) await svc("rm", name);
  }
}

const lists = (world: World) =>
  withMany(world, ["sleep", "1000000"], async () => {
    report(
      `ps with ${MANY} deployments`,
      await interleave([
        { name: "svc ps", run: () => world.svc("ps") },
        { name: "docker ps", run: () => world.docker("ps") },
      ], 15),
    );
  });

/** Each workload counts to LINES once it gets a signal: when that comes, all readers are there. */
const LINES = 2000;

async function follow(url: string, name: string, there: () => void): Promise<number> {
  const answer = await fetch(`${url}/.svc/v1/deployments/${name}/logs?follow=true`, {
    headers: { accept: "text/plain" },
  });
  let expected = 1;
  let rest = "";
  for await (const text of answer.body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === "ready") {
        there();
        continue;
      }
      if (line !== `line ${expected}`) throw new Error(`${name}: ${line} instead of ${expected}`);
      if (expected++ === LINES) return LINES;
    }
  }
  throw new Error(`${name}: the log ended after ${expected - 1} lines`);
}

const memoryOf = async ({ pid }: Server): Promise<number> => {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]) / 1024;
};

async function followed(world: World, backend: string): Promise<void> {
  const { server, svc } = world;
  const count = 'trap go=1 USR1; echo ready; while [ -z "$go" ]; do sleep 1; done; ' +
    `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo line $i; ` +
    "[ $((i % 100)) != 0 ] || sleep 1; done; sleep 1000000";
  await withMany(world, ["/bin/sh", "-c", count], async () => {
    const idle = await memoryOf(server);
    let most = 0;
    const sample = setInterval(async () => most = Math.max(most, await memoryOf(server)), 250);
    const names = Array.from({ length: MANY }, (_, n) => `many-${n}`);
    const readers = names.map((name) => {
      const there = Promise.withResolvers<void>();
      return { there: there.promise, read: follow(server.url, name, there.resolve) };
    });
    const begin = async () => {
      await Promise.all(readers.map(({ there }) => there));
      await svc("kill", "-s", "USR1", ...names);
      return 0;
    };
    const read = await Promise.all([begin(), ...readers.map(({ read }) => read)])
      .finally(() => clearInterval(sample));
    console.log(
      `\n${MANY} followed logs at once, ${backend}\n  ${read.reduce((a, b) => a + b)} lines, ` +
        `none lost; the server's memory before ${idle.toFixed(0)} MiB, at most ${
          most.toFixed(0)
        } MiB`,
    );
  });
}

async function logs(world: World): Promise<void> {
  await followed(world, "dockerhost");
  await using server = await startServer();
  const svc = (...args: string[]) => run(server, args);
  await svc("build", "-t", "busybox:1", await busyboxFolder(world.dir));
  await followed({ ...world, server, svc }, "bare");
}

async function warmBuild({ daemon, svc }: World): Promise<void> {
  const peer = (name: string, kit: string): Candidate => ({
    name,
    run: () =>
      silently("docker", ["-H", daemon.host, "build", "-q", "-t", "hello:v2", EXAMPLE], {
        DOCKER_BUILDKIT: kit,
        // Debian's client: another one on the PATH may lack what builds with BuildKit.
        PATH: "/usr/bin:/usr/sbin:/bin",
      }),
  });
  report(
    "a build with nothing changed, loaded into the daemon",
    await interleave([
      { name: "svc build", run: () => svc("build", "-t", "hello:v1", EXAMPLE) },
      peer("docker build, classic", "0"),
      peer("docker build, BuildKit", "1"),
    ], 9),
  );
}

const filler = (bytes: number) => {
  const data = new Uint8Array(bytes);
  crypto.getRandomValues(data.subarray(0, bytes / 2));
  return data;
};

/** The first read of an image makes its blobs: each first time has a server of its own. */
async function pulls({ dir, daemon, docker, server }: World): Promise<void> {
  const layer: Record<string, Uint8Array> = {};
  for (let n = 0; n < 20_600; n++) layer[`usr/lib/d${n % 300}/f${n}`] = filler(16 * 1024);
  const layout = join(dir, "big");
  await writeBaseLayout(layout, "1", { layers: [layer] });
  const skopeo = (...args: string[]) =>
    runTool("skopeo", ["--insecure-policy", "copy", "--quiet", ...args]).then(() => {});
  await using registry = await startDockerRegistry();
  await skopeo("--dest-tls-verify=false", `oci:${layout}:1`, `docker://${registry.host}/big:1`);
  await skopeo(`oci:${layout}:1`, `docker-archive:${dir}/big.tar:big:1`);
  await docker("load", "-i", `${dir}/big.tar`);
  await Deno.remove(`${dir}/big.tar`);
  const target = join(dir, "pulled");
  const pull = (host: string) => async () => {
    await skopeo("--src-tls-verify=false", `docker://${host}/big:1`, `dir:${target}`);
    await Deno.remove(target, { recursive: true });
  };
  let fresh: Server | undefined;
  const rows = await interleave([
    {
      name: "the view, first time",
      before: async () => void (fresh = await startServer({ env: onDaemon(daemon) })),
      run: async () => {
        const start = performance.now();
        await pull(fresh!.host)();
        const took = performance.now() - start;
        await fresh![Symbol.asyncDispose]();
        return took;
      },
    },
    { name: "the view, again", run: pull(server.host) },
    { name: "docker-registry", run: pull(registry.host) },
    {
      name: "docker save",
      run: async () => {
        const start = performance.now();
        await docker("save", "-o", `${dir}/saved.tar`, "big:1");
        const took = performance.now() - start;
        await Deno.remove(`${dir}/saved.tar`);
        return took;
      },
    },
  ], 5);
  report("a pull of 337 MB by skopeo", rows);
  const of = (name: string) => rows.find((row) => row.name === name)!.median;
  console.log(
    `  the view again is ${
      (of("the view, again") / of("docker-registry")).toFixed(2)
    }x of docker-registry`,
  );
}

const GROUPS = { deploys, lists, logs, build: warmBuild, pulls };

/** `SVC_BENCH_ROWS=deploys,lists,logs,build,pulls` chooses; all by default. */
export async function dockerBeside(): Promise<void> {
  const chosen = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ?? Object.keys(GROUPS);
  const version = Deno.env.get("SVC_BENCH_DOCKERD") === "28" ? "28" : "20.10";
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-docker-" });
  try {
    await using daemon = await startDockerd(join(dir, "docker"), { version, network: "own" });
    using _inside = daemon.enter();
    await using server = await startServer({ env: onDaemon(daemon) });
    const docker = async (...args: string[]) => void await daemon.docker(...args);
    const folder = await busyboxFolder(dir);
    await docker("build", "-q", "-t", "busybox:1", folder);
    await docker("build", "-q", "-t", "hello:v1", EXAMPLE);
    const svc = (...args: string[]) => run(server, args);
    const world: World = { dir, daemon, server, docker, svc };
    for (const name of chosen) await GROUPS[name as keyof typeof GROUPS](world);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

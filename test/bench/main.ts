/** `deno task bench [name]`: figures of dist/svc beside those of peers, in paired interleaved runs. */
import { join } from "node:path";
import { EXECUTABLE, freePort, runTool, type Server, startServer } from "../e2e/harness.ts";
import { buildBeside } from "./build.ts";
import { clientWays } from "./client.ts";
import { firstAnswer, interleave, median, report, row, silently } from "./measure.ts";
import { startPodman } from "./podman.ts";
import { registry } from "./registry.ts";

const ROOT = join(import.meta.dirname!, "../..");
const EXAMPLE = join(ROOT, "examples/hello");

const client = (server: Server) => ({
  SVC_SERVER: server.url,
  SVC_CONFIG: "/nonexistent/config.yaml",
});

/** The example's base image, built by svc; the archive that podman loads is of the same image. */
async function withBase(
  work: (server: Server, archive: string) => Promise<void>,
): Promise<void> {
  await using server = await startServer();
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-" });
  try {
    const context = join(dir, "busybox");
    await Deno.mkdir(context);
    await Deno.copyFile(join(ROOT, "examples/busybox/Dockerfile"), join(context, "Dockerfile"));
    await Deno.copyFile("/bin/busybox", join(context, "busybox"));
    await silently(EXECUTABLE, ["build", "-t", "busybox:1", context], client(server));
    const archive = join(dir, "base.tar");
    await runTool("skopeo", [
      "--insecure-policy",
      "copy",
      "--quiet",
      "--src-tls-verify=false",
      `docker://${server.host}/busybox:1`,
      `oci-archive:${archive}:localhost/busybox:1`,
    ]);
    await work(server, archive);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function start(): Promise<void> {
  await using server = await startServer();
  const rows = await interleave([
    { name: "svc version", run: () => silently(EXECUTABLE, ["version"]) },
    { name: "svc ps", run: () => silently(EXECUTABLE, ["ps"], client(server)) },
    { name: "deno eval ''", run: () => silently(Deno.execPath(), ["eval", ""]) },
  ], 21);
  report("start-up of the client", rows);
}

async function memory(): Promise<void> {
  const samples: { rss: number; own: number }[] = [];
  for (let n = 0; n < 3; n++) {
    await using server = await startServer();
    await new Promise((resolve) => setTimeout(resolve, 3000));
    const status = await Deno.readTextFile(`/proc/${server.pid}/smaps_rollup`);
    const kib = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)![1]);
    samples.push({
      rss: kib("Rss") / 1024,
      own: (kib("Private_Clean") + kib("Private_Dirty")) / 1024,
    });
  }
  console.log("\nidle memory of svc serve, 3 s after it is ready");
  console.log(
    `  RSS     median ${median(samples.map((s) => s.rss)).toFixed(1)} MiB\n` +
      `  private median ${median(samples.map((s) => s.own)).toFixed(1)} MiB  (3 servers)`,
  );
}

async function example(): Promise<void> {
  await withBase(async (server, archive) => {
    await using podman = await startPodman();
    await podman.run(["load", "--quiet", "--input", archive]);
    const env = client(server);
    // busybox:1 is localhost/busybox:1 to podman.
    const podmanArgs = ["build", "--quiet", "-t", "hello:v1", "--pull=never", EXAMPLE];
    report(
      "cold build of examples/hello",
      await interleave([
        {
          name: "svc build --no-cache",
          run: () => silently(EXECUTABLE, ["build", "--no-cache", "-t", "hello:v1", EXAMPLE], env),
        },
        {
          name: "podman build --no-cache",
          run: () => podman.run([...podmanArgs, "--no-cache"]),
        },
      ], 5),
    );
    report(
      "cached build of examples/hello",
      await interleave([
        {
          name: "svc build",
          run: () => silently(EXECUTABLE, ["build", "-t", "hello:v1", EXAMPLE], env),
        },
        { name: "podman build", run: () => podman.run([...podmanArgs, "--layers"]) },
      ], 9),
    );
  });
}

/**
 * The clock starts with the command, and stops at the first answer: the page is asked for from the start
 * on, in the same way for both. The command has to end well, too.
 */
async function deploy(): Promise<void> {
  await withBase(async (server, archive) => {
    await using podman = await startPodman();
    await podman.run(["load", "--quiet", "--input", archive]);
    await podman.run(["build", "--quiet", "-t", "hello:v1", "--pull=never", EXAMPLE]);
    const env = client(server);
    await silently(EXECUTABLE, ["build", "-t", "hello:v1", EXAMPLE], env);
    let port = 0;
    const fresh = async () => {
      port = freePort();
      // What the run before goes on with in the background does not count for this one.
      await new Promise((resolve) => setTimeout(resolve, 1000));
    };
    const ended: Record<string, number[]> = {};
    const measured = async (name: string, command: () => Promise<void>) => {
      const start = performance.now();
      const since = () => performance.now() - start;
      const [answered, took] = await Promise.all([
        firstAnswer(`http://127.0.0.1:${port}/`).then(since),
        command().then(since),
      ]);
      (ended[name] ??= []).push(took);
      return answered;
    };
    const rows = await interleave([
      {
        name: "svc deploy",
        before: fresh,
        run: async () => {
          const args = ["deploy", "hello:v1", "--name", "bench", "-p", `${port}:8080`];
          const took = await measured("svc deploy", () => silently(EXECUTABLE, args, env));
          await silently(EXECUTABLE, ["rm", "bench"], env);
          return took;
        },
      },
      {
        name: "podman run",
        before: fresh,
        run: async () => {
          const name = `bench-${port}`;
          const args = ["run", "-d", "--name", name, "-p", `${port}:8080`, "hello:v1"];
          const took = await measured("podman run", () => podman.run(args));
          await podman.run(["rm", "-f", "-t", "0", name]);
          return took;
        },
      },
    ], 11);
    report("from the command to the first HTTP answer", rows);
    // The first of each was for warming up.
    report(
      "the same runs, to the end of the command",
      Object.entries(ended).map(([name, times]) => row(name, times.slice(1))),
    );
  });
}

const BENCHES: Record<string, () => Promise<void>> = {
  start,
  client: clientWays,
  memory,
  example,
  build: buildBeside,
  deploy,
  registry,
};

const names = Deno.args.length > 0 ? Deno.args : Object.keys(BENCHES);
for (const name of names) {
  if (!BENCHES[name]) {
    console.error(`Cannot bench ${name}: there is ${Object.keys(BENCHES).join(", ")}`);
    Deno.exit(2);
  }
}
for (const name of names) await BENCHES[name]();

/** `deno task bench [name]`: figures of dist/svc beside those of peers, in paired interleaved runs. */
import { join } from "node:path";
import { EXECUTABLE, runTool, type Server, startServer } from "../e2e/harness.ts";
import { buildBeside } from "./build.ts";
import { clientWays } from "./client.ts";
import { deployBeside } from "./deploy.ts";
import { dockerBeside } from "./docker.ts";
import { busyboxFolder, EXAMPLE } from "./example.ts";
import { hostsBeside } from "./hosts.ts";
import { listener } from "./listener.ts";
import { interleave, median, report, silently } from "./measure.ts";
import { mountsBeside } from "./mounts.ts";
import { startPodman } from "./podman.ts";
import { registry } from "./registry.ts";

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
    const base = ["build", "-t", "busybox:1", await busyboxFolder(dir)];
    await silently(EXECUTABLE, base, client(server));
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

const BENCHES: Record<string, () => Promise<void>> = {
  start,
  client: clientWays,
  memory,
  example,
  build: buildBeside,
  deploy: deployBeside,
  docker: dockerBeside,
  hosts: hostsBeside,
  mounts: mountsBeside,
  registry,
  listener,
};

const names = Deno.args.length > 0 ? Deno.args : Object.keys(BENCHES);
for (const name of names) {
  if (!BENCHES[name]) {
    console.error(`Cannot bench ${name}: there is ${Object.keys(BENCHES).join(", ")}`);
    Deno.exit(2);
  }
}
for (const name of names) await BENCHES[name]();

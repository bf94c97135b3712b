/**
 * From the command to the first HTTP answer of a workload, beside podman, or beside another svc
 * (`SVC_BENCH_BESIDE=EXECUTABLE`, to see what a change costs).
 */
import { EXECUTABLE, freePort, startServer } from "../e2e/harness.ts";
import { busyboxFolder, EXAMPLE } from "./example.ts";
import { type Candidate, firstAnswer, interleave, report, row, silently } from "./measure.ts";
import { startPodman } from "./podman.ts";

/** What runs workloads of the example's image. */
interface Engine extends AsyncDisposable {
  name: string;
  deploy(workload: string, port: number): Promise<void>;
  remove(workload: string): Promise<void>;
}

async function svcEngine(name: string, executable: string): Promise<Engine> {
  const server = await startServer({ executable });
  const env = { SVC_SERVER: server.url, SVC_CONFIG: "/nonexistent/config.yaml" };
  const svc = (...args: string[]) => silently(executable, args, env);
  const context = await Deno.makeTempDir({ prefix: "svc-bench-" });
  await svc("build", "-t", "busybox:1", await busyboxFolder(context));
  await Deno.remove(context, { recursive: true });
  await svc("build", "-t", "hello:v1", EXAMPLE);
  return {
    name,
    deploy: (workload, port) => svc("deploy", "hello:v1", "--name", workload, "-p", `${port}:8080`),
    remove: (workload) => svc("rm", workload),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function podmanEngine(): Promise<Engine> {
  const podman = await startPodman();
  const context = await Deno.makeTempDir({ prefix: "svc-bench-" });
  await podman.run(["build", "--quiet", "-t", "busybox:1", await busyboxFolder(context)]);
  await Deno.remove(context, { recursive: true });
  // busybox:1 is localhost/busybox:1 to podman.
  await podman.run(["build", "--quiet", "-t", "hello:v1", "--pull=never", EXAMPLE]);
  return {
    name: "podman run",
    deploy: (workload, port) =>
      podman.run(["run", "-d", "--name", workload, "-p", `${port}:8080`, "hello:v1"]),
    remove: (workload) => podman.run(["rm", "-f", "-t", "0", workload]),
    [Symbol.asyncDispose]: () => podman[Symbol.asyncDispose](),
  };
}

/**
 * The clock starts with the command, and stops at the first answer: the page is asked for from the start
 * on, in the same way for both. The command has to end well, too.
 */
export async function deployBeside(): Promise<void> {
  const other = Deno.env.get("SVC_BENCH_BESIDE");
  await using own = await svcEngine("svc deploy", EXECUTABLE);
  await using peer = other ? await svcEngine("other svc", other) : await podmanEngine();
  const ended = new Map<string, number[]>([own, peer].map(({ name }) => [name, []]));
  const candidate = ({ name, deploy, remove }: Engine): Candidate => {
    let port = 0;
    return {
      name,
      before: async () => {
        port = freePort();
        // What the run before goes on with in the background does not count for this one.
        await new Promise((resolve) => setTimeout(resolve, 1000));
      },
      run: async () => {
        const workload = `bench-${port}`;
        const start = performance.now();
        const since = () => performance.now() - start;
        const [answered, took] = await Promise.all([
          firstAnswer(`http://127.0.0.1:${port}/`).then(since),
          deploy(workload, port).then(since),
        ]);
        ended.get(name)!.push(took);
        await remove(workload);
        return answered;
      },
    };
  };
  const rows = await interleave([candidate(own), candidate(peer)], 11);
  report("from the command to the first HTTP answer", rows);
  // The first of each was for warming up.
  report(
    "the same runs, to the end of the command",
    [...ended].map(([name, times]) => row(name, times.slice(1))),
  );
}

/**
 * svc on this host's own engines, bare and containerd, beside docker and beside runc with CNI plugins run by hand.
 * Everything is in the network namespace of a docker daemon, which the bench enters. `SVC_BENCH_MANY`: how many
 * workloads "many" are, 100 by default.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { freePort, runTool, type Server, startServer } from "../e2e/harness.ts";
import { startContainerd } from "../peers/containerd.ts";
import { type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { busyboxFolder, EXAMPLE } from "./example.ts";
import { type Candidate, firstAnswer, interleave, median, report } from "./measure.ts";
import { RuncByHand } from "./runc_by_hand.ts";

const MANY = Number(Deno.env.get("SVC_BENCH_MANY") ?? 100);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** What runs workloads of the example's image, by its API. */
interface Engine {
  name: string;
  run(workload: string, port: number): Promise<void>;
  remove(workload: string): Promise<void>;
}

async function ok(answer: Promise<Response>): Promise<string> {
  const response = await answer;
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.url} answered ${response.status}: ${text}`);
  return text;
}

function svcEngine(name: string, { url }: Server): Engine {
  const at = (workload: string) => `${url}/.svc/v1/deployments/${workload}`;
  return {
    name,
    run: async (workload, host) => {
      const ports = [{ host, container: 8080 }];
      const body = JSON.stringify({ name: workload, image: "hello:v1", ports });
      const headers = { "content-type": "application/json" };
      await ok(fetch(at(workload), { method: "PUT", body, headers }));
    },
    remove: async (workload) => void await ok(fetch(at(workload), { method: "DELETE" })),
  };
}

function dockerEngine({ host }: DockerdPeer): Engine & Disposable {
  const client = Deno.createHttpClient({
    proxy: { transport: "unix", path: host.replace("unix://", "") },
  });
  const ask = (path: string, init: RequestInit) =>
    ok(fetch(`http://docker/v1.41/containers/${path}`, { ...init, client }));
  return {
    name: "docker",
    run: async (workload, port) => {
      const body = JSON.stringify({
        Image: "hello:v1",
        HostConfig: { PortBindings: { "8080/tcp": [{ HostPort: String(port) }] } },
      });
      const headers = { "content-type": "application/json" };
      await ask(`create?name=${workload}`, { method: "POST", body, headers });
      await ask(`${workload}/start`, { method: "POST" });
    },
    remove: async (workload) => void await ask(`${workload}?force=1`, { method: "DELETE" }),
    [Symbol.dispose]: () => client.close(),
  };
}

/** From the command to the first HTTP answer: the page is asked for from the start on, in the same way. */
async function deploys(server: Server, engines: Engine[], daemon: DockerdPeer): Promise<void> {
  const candidate = (engine: Engine): Candidate => {
    let port = 0;
    return {
      name: engine.name,
      before: async () => {
        port = freePort();
        await pause(800);
      },
      run: async () => {
        const start = performance.now();
        const [answered] = await Promise.all([
          firstAnswer(`http://127.0.0.1:${port}/`).then(() => performance.now() - start),
          engine.run(`bench-${port}`, port),
        ]);
        await engine.remove(`bench-${port}`);
        return answered;
      },
    };
  };
  const [bare] = engines;
  const client = (args: string[]) => async (name: string, port: number) => {
    const { code, stderr } = await server.svc([...args, "--name", name, "-p", `${port}:8080`]);
    if (code !== 0) throw new Error(stderr);
  };
  await using runc = await RuncByHand.prepare();
  const docker = engines.at(-1)!;
  report(
    "deploy to first answer, by the API",
    await interleave([...engines.slice(0, -1), runc, docker].map(candidate), 9),
  );
  report(
    "deploy to first answer, by the command",
    await interleave([
      candidate({ ...bare, name: "svc deploy, bare", run: client(["deploy", "hello:v1"]) }),
      candidate({
        ...docker,
        name: "docker run -d",
        run: async (name, port) =>
          void await daemon.docker("run", "-d", "--name", name, "-p", `${port}:8080`, "hello:v1"),
      }),
    ], 7),
  );
}

const workloads = Array.from({ length: MANY }, (_, n) => `many-${n}`);

async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** What each is asked for: a workload, at a port of its own. */
const asked = (count: number) =>
  workloads.slice(0, count).map((name) => ({ name, port: freePort() }));
type Asked = ReturnType<typeof asked>;

/** Runs them all, and waits for their answers; `took` is the time of the former. */
async function all({ run }: Engine, wanted: Asked, atOnce: boolean): Promise<number> {
  const took = await timed(async () => {
    if (atOnce) return void await Promise.all(wanted.map(({ name, port }) => run(name, port)));
    for (const { name, port } of wanted) await run(name, port);
  });
  for (const { port } of wanted) await firstAnswer(`http://127.0.0.1:${port}/`);
  return took;
}

const none = ({ remove }: Engine, wanted: Asked) =>
  Promise.all(wanted.map(({ name }) => remove(name)));

/** The engines take turns, since a machine is never calm for as long as this takes. */
async function crowds(engines: readonly Engine[]): Promise<void> {
  const candidate = (count: number, atOnce: boolean) => (engine: Engine): Candidate => ({
    name: engine.name,
    run: async () => {
      const wanted = asked(count);
      const took = await all(engine, wanted, atOnce);
      await none(engine, wanted);
      return took;
    },
  });
  const few = Math.ceil(MANY / 5);
  const turns = await interleave(engines.map(candidate(few, false)), 5);
  report(`${few} deployments one after another`, turns);
  report(`${MANY} deployments at once`, await interleave(engines.map(candidate(MANY, true)), 3, 0));
}

async function standing(engine: Engine, server: Server): Promise<void> {
  const wanted = asked(MANY);
  await all(engine, wanted, true);
  await idle(server, "after it has built and deployed");
  await restarts(server, wanted.map(({ port }) => port));
  await idle(server, "after a restart");
  await none(engine, wanted);
}

/** Resident and own memory in MiB, and CPU seconds so far. */
async function usage(pid: number) {
  const text = await Deno.readTextFile(`/proc/${pid}/smaps_rollup`);
  const mib = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)![1]) / 1024;
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).split(") ").at(-1)!.split(" ");
  const cpu = (Number(fields[11]) + Number(fields[12])) / 100;
  return { rss: mib("Rss"), own: mib("Private_Clean") + mib("Private_Dirty"), cpu };
}

async function idle(server: Server, when: string): Promise<void> {
  const WINDOW = 20_000;
  await pause(5000);
  const before = await usage(server.pid);
  await pause(WINDOW);
  const { rss, own, cpu } = await usage(server.pid);
  const share = (cpu - before.cpu) / (WINDOW / 1000) * 100;
  console.log(`\nserver with ${MANY} workloads on bare, idle for ${WINDOW / 1000} s, ${when}`);
  console.log(
    `  RSS ${rss.toFixed(0)} MiB, private ${own.toFixed(0)} MiB, ${share.toFixed(1)} % of a core`,
  );
}

/** No request fails while the server is away and comes back. */
async function restarts(server: Server, ports: number[]): Promise<void> {
  const counts = { asked: 0, failed: 0 };
  let over = false;
  const asking = (async () => {
    for (let n = 0; !over; n++) {
      counts.asked++;
      const url = `http://127.0.0.1:${ports[n % ports.length]}/`;
      await fetch(url, { signal: AbortSignal.timeout(5000) }).then((answer) => answer.text())
        .catch(() => counts.failed++);
      await pause(5);
    }
  })();
  const times: number[] = [];
  for (let n = 0; n < 3; n++) {
    await server.stop();
    times.push(await timed(() => server.restart()));
  }
  over = true;
  await asking;
  console.log(
    `\nrestart with ${MANY} workloads until it is ready, ${counts.asked} requests meanwhile`,
  );
  console.log(`  median ${median(times).toFixed(0)} ms, ${counts.failed} requests failed`);
}

/** `SVC_BENCH_ROWS=deploys,standing,crowds` chooses; all by default. */
export async function hostsBeside(): Promise<void> {
  const rows = Deno.env.get("SVC_BENCH_ROWS")?.split(",") ??
    ["deploys", "standing", "crowds"];
  const dir = await Deno.makeTempDir({ prefix: "svc-bench-hosts-" });
  try {
    await using daemon = await startDockerd(join(dir, "docker"), { network: "own" });
    using _inside = daemon.enter();
    await Deno.mkdir(join(dir, "containerd"));
    await using containerd = await startContainerd(join(dir, "containerd"));
    await using bare = await startServer();
    await using onContainerd = await startServer({
      env: {
        SVC_DEPLOY_BACKEND: "containerd",
        SVC_CONTAINERD_ADDRESS: containerd.address,
      },
    });
    using docker = dockerEngine(daemon);
    const folder = await busyboxFolder(dir);
    for (const [tag, context] of [["busybox:1", folder], ["hello:v1", EXAMPLE]]) {
      await daemon.docker("build", "-q", "-t", tag, context);
      for (const server of [bare, onContainerd]) {
        const { code, stderr } = await server.svc(["build", "-t", tag, context]);
        assert.equal(code, 0, stderr);
      }
    }
    const engines = [
      svcEngine("svc, bare", bare),
      svcEngine("svc, containerd", onContainerd),
      docker,
    ];
    if (rows.includes("deploys")) await deploys(bare, engines, daemon);
    if (rows.includes("standing")) await standing(engines[0], bare);
    if (rows.includes("crowds")) await crowds(engines);
  } finally {
    await runTool("rm", ["-rf", dir]);
  }
}

/** From a Dockerfile to an answering container, and everything that may happen to it on the way. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { e2eTest, freePort, type RunOutput, type Server, startServer } from "./harness.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox"] };

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
COPY index.html /srv/index.html
ENV GREETING=hello
STOPSIGNAL SIGKILL
EXPOSE 8080
CMD ["httpd", "-f", "-p", "8080", "-h", "/srv"]
`;

/** A context whose page says `page`, built and pushed as `tag`. */
async function build(server: Server, folder: string, tag: string, page: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(join(folder, "Dockerfile"), DOCKERFILE);
  await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
  await Deno.writeTextFile(join(folder, "index.html"), `${page}\n`);
  ok(await server.svc(["build", "-t", tag, folder]));
}

function ok(output: RunOutput): string {
  assert.equal(output.code, 0, `exit code ${output.code}: ${output.stderr}${output.stdout}`);
  return output.stdout;
}

/** The spec goes in through a file, as a person gives it. */
async function deploy(server: Server, spec: Record<string, unknown> | string): Promise<RunOutput> {
  const file = join(server.dataDir, "..", `${crypto.randomUUID()}.yaml`);
  await Deno.writeTextFile(file, typeof spec === "string" ? spec : JSON.stringify(spec));
  try {
    return await server.svc(["deploy", "-f", file]);
  } finally {
    await Deno.remove(file);
  }
}

interface Status {
  state: string;
  warnings: string[];
  error?: string;
  instances: { id: string; pid?: number; state: string; restarts: number; exitCode?: number }[];
}

async function status(server: Server, name: string): Promise<Status> {
  const answer = await fetch(`${server.url}/.svc/v1/deployments/${name}`);
  assert.equal(answer.status, 200, await answer.clone().text());
  return await answer.json();
}

/** Decided by nothing: a replacement is on trial for as long as it runs. */
const UNDECIDED = { test: "false", interval: "1h", retries: 1000 };
/** It takes another's place when it answers, and no sooner. */
const ANSWERS = {
  test: "wget -q -O - http://127.0.0.1:8080/",
  interval: "1h",
  startInterval: "100ms",
  timeout: "60s",
};

const pid = async (server: Server, name: string) => (await status(server, name)).instances[0].pid;

async function page(port: number): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/`, {
    headers: { connection: "close" },
    signal: AbortSignal.timeout(60_000),
  });
  return (await answer.text()).trim();
}

/** Processes whose command line holds `text`: those in containers are the host's processes too. */
async function countProcesses(text: string): Promise<number> {
  let count = 0;
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const line = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    const words = line.split("\0");
    // The monitor and the runtime name the container, not its command.
    if (words.includes(text)) count++;
  }
  return count;
}

e2eTest("build, deploy, curl: the main job", NEEDS, async (t) => {
  await using server = await startServer();
  const work = await Deno.makeTempDir({ prefix: "svc-e2e-deploy-" });
  const port = freePort();
  const web = { name: "web", image: "app:v1", ports: [`127.0.0.1:${port}:8080`] };
  try {
    await build(server, join(work, "v1"), "app:v1", "version one");
    await build(server, join(work, "v2"), "app:v2", "version two");

    await t.step("the published port answers", async () => {
      ok(await deploy(server, { ...web, resources: { memoryLimit: "48Mi" } }));
      await eventually("an answer", async () => await page(port) === "version one");
      assert.match(ok(await server.svc(["ps"])), /web\s.*running/);
    });

    await t.step("the memory limit is in the container's cgroup", async () => {
      const groups = await Deno.readTextFile(`/proc/${await pid(server, "web")}/cgroup`);
      const path = /^\d+:(?:[\w,]*\bmemory\b[\w,]*|):(.*)$/m.exec(groups)![1];
      const limit = await Deno.readTextFile(`/sys/fs/cgroup/memory${path}/memory.limit_in_bytes`)
        .catch(() => Deno.readTextFile(`/sys/fs/cgroup${path}/memory.max`));
      assert.equal(limit.trim(), String(48 * 1024 ** 2));
    });

    await t.step("exec gives output and exit code", async () => {
      const run = (...command: string[]) => server.svc(["exec", "web", "--", ...command]);
      assert.equal(ok(await run("sh", "-c", "echo $GREETING")), "hello\n");
      assert.equal((await run("sh", "-c", "exit 42")).code, 42);
      assert.equal((await run("no-such-command")).code, 127);
    });

    await t.step("a replacement that fails keeps the old one answering", async () => {
      const failed = await deploy(server, {
        ...web,
        command: ["sh", "-c", "echo cannot start; exit 9"],
        healthcheck: UNDECIDED,
      });
      assert.equal(failed.code, 1);
      assert.match(failed.stderr, /code 9/);
      assert.match(failed.stderr, /cannot start/);
      assert.equal(await page(port), "version one");
    });

    await t.step("a replacement takes over without a missed request", async () => {
      let missed = 0;
      let over = false;
      const asking = (async () => {
        // One that the old instance was about to answer may end with it; the next has to be answered.
        while (!over) await page(port).catch(() => page(port)).catch(() => missed++);
      })();
      ok(await deploy(server, { ...web, image: "app:v2", healthcheck: ANSWERS }));
      over = true;
      await asking;
      assert.equal(missed, 0);
      assert.equal(await page(port), "version two");
    });

    await t.step("stop, start, restart, rm", async () => {
      const first = await pid(server, "web");
      ok(await server.svc(["stop", "web"]));
      assert.equal((await status(server, "web")).state, "stopped");
      await assert.rejects(page(port));
      ok(await server.svc(["start", "web"]));
      await eventually("an answer", async () => await page(port) === "version two");
      const second = await pid(server, "web");
      ok(await server.svc(["restart", "web"]));
      const third = await pid(server, "web");
      assert.equal(new Set([first, second, third]).size, 3);
      ok(await server.svc(["rm", "web"]));
      await assert.rejects(page(port));
      assert.equal((await server.svc(["status", "web"])).code, 1);
    });

    await t.step("logs come back whole", async () => {
      const command = ["sh", "-c", "for i in $(seq 500); do echo line $i; done; echo bad >&2"];
      ok(await deploy(server, { name: "talk", image: "app:v1", command, restart: "no" }));
      await eventually("its end", async () => (await status(server, "talk")).state === "stopped");
      const output = await server.svc(["logs", "talk"]);
      const lines = `${ok(output)}${output.stderr}`.split("\n").filter(Boolean);
      assert.equal(lines.filter((line) => /line \d+$/.test(line)).length, 500);
      assert.equal(lines.filter((line) => /bad$/.test(line)).length, 1);
      assert.match(ok(await server.svc(["logs", "--tail", "1", "talk"])) + " ", /line 500|bad|^ $/);
      ok(await server.svc(["rm", "talk"]));
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});

e2eTest("a server that is killed finds its workloads again", NEEDS, async () => {
  await using server = await startServer();
  const work = await Deno.makeTempDir({ prefix: "svc-e2e-kill-" });
  try {
    const port = freePort();
    await build(server, join(work, "v1"), "app:v1", "still here");
    const mark = `mark-${crypto.randomUUID()}`;
    const serve = ["sh", "-c", "exec httpd -f -p 8080 -h /srv", mark];
    const tick = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done", mark];
    const ports = [`127.0.0.1:${port}:8080`];
    ok(await deploy(server, { name: "web", image: "app:v1", ports, command: serve }));
    ok(await deploy(server, { name: "tick", image: "app:v1", command: tick }));
    ok(await deploy(server, { name: "dies", image: "app:v1", command: tick }));
    ok(await deploy(server, { name: "once", image: "app:v1", command: tick, restart: "no" }));
    ok(await deploy(server, { name: "off", image: "app:v1", command: tick }));
    ok(await server.svc(["stop", "off"]));
    const before = {
      web: await pid(server, "web"),
      tick: await pid(server, "tick"),
      dies: (await pid(server, "dies"))!,
      once: (await pid(server, "once"))!,
    };
    await eventually("an answer", async () => await page(port) === "still here");
    await server.kill9();
    assert.equal(await page(port), "still here", "it answers without a server");
    Deno.kill(before.dies, "SIGKILL");
    Deno.kill(before.once, "SIGKILL");
    const exits = join(server.dataDir, "bare/exits");
    await eventually("their monitors say so", async () => {
      const names = (await Array.fromAsync(Deno.readDir(exits))).map(({ name }) => name);
      return ["dies-0-", "once-0-"].every((key) => names.some((name) => name.startsWith(key)));
    });
    await server.restart();

    assert.equal(await pid(server, "web"), before.web);
    assert.equal(await pid(server, "tick"), before.tick);
    await eventually("the dead one runs again", async () => {
      const { instances: [instance] } = await status(server, "dies");
      return instance.state === "running" && instance.pid !== before.dies;
    });
    await eventually("the one that is not to run again is told", async () => {
      const { state, instances: [{ exitCode }] } = await status(server, "once");
      return state === "failed" && exitCode === 137;
    });
    assert.equal((await status(server, "off")).state, "stopped");
    assert.equal(await page(port), "still here");
    // tick and dies run their loop, httpd has taken its shell's place: nothing runs twice.
    // A child of theirs has their words until it has become another program.
    await eventually("two", async () => await countProcesses(mark) === 2);
    // What was logged while there was no server is there, without a hole.
    let numbers: number[] = [];
    await eventually("more than ten lines", async () => {
      numbers = ok(await server.svc(["logs", "tick"])).split("\n").map((line) =>
        Number(/(\d+)$/.exec(line)?.[1] ?? NaN)
      ).filter((number) => !Number.isNaN(number));
      return numbers.length > 10;
    });
    assert.deepEqual(numbers, numbers.map((_, index) => index + 1));
    const again = await deploy(server, { name: "web", image: "app:v1", ports, command: serve });
    ok(again);
    assert.equal(await pid(server, "web"), before.web, "an unchanged spec changes nothing");
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});

e2eTest(
  "a server that is killed in mid-deploy leaves nothing half-made behind",
  NEEDS,
  async () => {
    await using server = await startServer();
    const work = await Deno.makeTempDir({ prefix: "svc-e2e-half-" });
    try {
      const port = freePort();
      await build(server, work, "app:v1", "old");
      const web = { name: "web", image: "app:v1", ports: [`127.0.0.1:${port}:8080`] };
      ok(await deploy(server, web));
      await eventually("an answer", async () => await page(port) === "old");
      const before = await pid(server, "web");
      const mark = `mark-${crypto.randomUUID()}`;
      // Never healthy: both applies are waiting when the server goes.
      const waiting = {
        command: ["sh", "-c", "while :; do sleep 0.1; done", mark],
        healthcheck: { test: "false", interval: "1h", retries: 1 },
      };
      const applies = [
        deploy(server, { ...web, ...waiting }),
        deploy(server, { name: "new", image: "app:v1", ports: ["127.0.0.1::8080"], ...waiting }),
      ];
      await eventually("both wait", async () => await countProcesses(mark) === 2);
      await server.kill9();
      for (const output of await Promise.all(applies)) assert.equal(output.code, 1);
      await server.restart();
      await eventually("they are gone", async () => await countProcesses(mark) === 0);
      assert.equal(await pid(server, "web"), before);
      assert.equal(await page(port), "old");
      const all = await (await fetch(`${server.url}/.svc/v1/deployments`)).text();
      assert.doesNotMatch(all, /"new"/);
      for (const folder of ["instances", "netns", "deployments"]) {
        const left = () => Array.fromAsync(Deno.readDir(join(server.dataDir, "bare", folder)));
        await eventually(`one of ${folder} is left`, async () => (await left()).length === 1);
      }
    } finally {
      await Deno.remove(work, { recursive: true });
    }
  },
);

e2eTest("bad input: clear words, right exit codes, nothing half-made", NEEDS, async (t) => {
  await using server = await startServer();
  const work = await Deno.makeTempDir({ prefix: "svc-e2e-bad-" });
  try {
    await build(server, join(work, "v1"), "app:v1", "hello");
    const base = { name: "bad", image: "app:v1" };
    const refused = async (spec: Record<string, unknown> | string, code: number, words: RegExp) => {
      const output = await deploy(server, spec);
      assert.match(output.stderr, words);
      assert.equal(output.code, code, output.stderr);
    };
    await t.step("specs", async () => {
      await refused("name: bad\nimage: [a\n", 2, /line 3, column 1/);
      await refused({ ...base, replica: 2 }, 2, /"replica"; did you mean replicas\?/);
      await refused(
        { ...base, ports: [{ container: 99999 }] },
        2,
        /ports\[0\]\.container: expected 1\.\.65535/,
      );
      await refused({ ...base, mounts: ["/etc:/mnt"] }, 1, /not allowed.*|SVC_ALLOW_BIND_SOURCES/s);
      await refused({ ...base, privileged: true }, 1, /privileged.*SVC_ALLOW_PRIVILEGED/s);
      await refused({ ...base, knative: { enabled: true }, strict: true }, 1, /knative/);
      await refused({ ...base, command: ["/no/such"] }, 1, /no\/such/);
      await refused({ ...base, user: "nobody-here" }, 2, /nobody-here/);
      await refused({ ...base, capAdd: ["FLY"] }, 2, /FLY/);
    });
    await t.step("a port in use", async () => {
      using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const { port } = listener.addr;
      await refused(
        { ...base, ports: [`127.0.0.1:${port}:80`] },
        1,
        new RegExp(`Cannot publish 127\\.0\\.0\\.1:${port}: address in use`),
      );
    });
    await t.step("nothing is left of any of them", async () => {
      const answer = await fetch(`${server.url}/.svc/v1/deployments`);
      assert.doesNotMatch(await answer.text(), /"bad"/);
      const left = await Array.fromAsync(Deno.readDir(join(server.dataDir, "bare/instances")));
      assert.deepEqual(left, []);
    });
    await t.step("fields that are not honoured are warned of", async () => {
      const output = await deploy(server, { ...base, knative: { enabled: true } });
      ok(output);
      assert.match(output.stderr, /knative: it is for a cluster with Knative/);
    });
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});

e2eTest("a missing plugin is named with its package", NEEDS, async () => {
  await using server = await startServer({
    env: { SVC_CNI_BIN_DIR: "/nonexistent", SVC_BUILD_NETWORK: "none" },
  });
  const work = await Deno.makeTempDir({ prefix: "svc-e2e-cni-" });
  try {
    await build(server, work, "app:v1", "hello");
    const output = await deploy(server, { name: "web", image: "app:v1" });
    assert.equal(output.code, 1);
    assert.match(output.stderr, /CNI plugin bridge is not in \/nonexistent/);
    assert.match(output.stderr, /containernetworking-plugins/);
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});

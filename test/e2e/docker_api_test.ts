/** docker's own clients against `svc daemon docker` and a server on bare. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually, PATIENCE_MS } from "../waits.ts";
import { CLIENTS_READY, type DockerSocket, PROGRAMS, startDockerApi } from "./docker_api.ts";
import { baseImage, e2eTest, EXECUTABLE, freePort, startServer } from "./harness.ts";

const COMMANDS = ["runc", "conmon", "iptables", "busybox", "skopeo", "script", "docker"];
const NEEDS = { root: true, commands: COMMANDS, files: [CLIENTS_READY] };

const MAIN = "docker28";

/** Ends at once when it is stopped. */
const SERVER = ["--stop-signal", "KILL", "base:1", "httpd", "-f", "-p", "80", "-h"];
const SERVES = [...SERVER, "/www"];
const SHARES = [...SERVER, "/etc"];

/** What is printed without a newline is shown at once: the answer is typed when the question has come. */
async function answersAPrompt(api: DockerSocket): Promise<void> {
  const child = new Deno.Command(PROGRAMS[MAIN], {
    args: ["run", "--rm", "-i", "base:1", "sh", "-c", "printf 'who? '; read x; echo it is $x"],
    env: { DOCKER_HOST: `unix://${api.path}` },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), PATIENCE_MS);
  const typing = child.stdin.getWriter();
  let shown = "";
  for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
    shown += part;
    if (shown === "who? ") {
      await typing.write(new TextEncoder().encode("me\n"));
      await typing.close();
    }
  }
  clearTimeout(timer);
  await child.status;
  assert.equal(shown, "who? it is me\n");
}

async function runsAndEnds(api: DockerSocket): Promise<void> {
  for (const program of ["docker20", MAIN] as const) {
    assert.equal(await api.ok(program, ["run", "--rm", "base:1", "echo", "hi"]), "hi\n");
    const typed = await api.ok(program, ["run", "--rm", "-i", "base:1", "cat"], { stdin: "typed" });
    assert.equal(typed, "typed");
  }
  await answersAPrompt(api);
  const mixed = await api.run(MAIN, [
    "run",
    "--name",
    "job",
    "base:1",
    "sh",
    "-c",
    "echo o; echo e >&2; exit 3",
  ]);
  assert.deepEqual([mixed.code, mixed.stdout, mixed.stderr], [3, "o\n", "e\n"]);
  const listed = ["ps", "-a", "--no-trunc", "--filter", "name=job", "--format", "{{.Command}}"];
  assert.equal(await api.ok(MAIN, listed), `"sh -c 'echo o; echo e >&2; exit 3'"\n`);
  const again = await api.run(MAIN, ["start", "-a", "job"]);
  assert.deepEqual([again.code, again.stdout], [3, "o\n"]);
  assert.equal(await api.ok(MAIN, ["wait", "job"]), "3\n");
  assert.equal(await api.ok(MAIN, ["rm", "job"]), "job\n");
  assert.equal((await api.run(MAIN, ["run", "--rm", "base:1", "no-such-program"])).code, 127);
  assert.equal((await api.run(MAIN, ["run", "--rm", "base:1", "/etc"])).code, 126);
  const absent = await api.run(MAIN, ["run", "--rm", "--pull", "never", "absent:1"]);
  assert.match(absent.stderr, /No such image: absent:1/);
  assert.equal(await api.ok(MAIN, ["ps", "-aq"]), "");
}

async function hasATerminal(api: DockerSocket): Promise<void> {
  // The size comes once the process runs.
  const script = 'tty; until [ "$(stty size)" = "33 77" ]; do sleep 0.1; done; echo sized';
  const { stdout } = await new Deno.Command("script", {
    args: [
      "-qec",
      `stty cols 77 rows 33; ${PROGRAMS[MAIN]} run --rm -it base:1 sh -c '${script}'`,
      "/dev/null",
    ],
    env: { DOCKER_HOST: `unix://${api.path}`, TERM: "dumb" },
    stdin: "null",
  }).output();
  assert.match(new TextDecoder().decode(stdout), /\/dev\/pts\/0\r\n[^]*sized\r\n/);
}

async function servesAndIsSeen(api: DockerSocket, folder: string): Promise<void> {
  const port = freePort();
  await Deno.mkdir(join(folder, "www"));
  await Deno.writeTextFile(join(folder, "www/page"), "mine");
  await api.ok(MAIN, ["network", "create", "--label", "a=b", "net"]);
  await api.ok(MAIN, ["volume", "create", "vol"]);
  const id = await api.ok(MAIN, [
    ...["run", "-d", "--name", "web", "--network", "net", "-p", `${port}:80`, "-e", "A=b"],
    ...["-v", `${join(folder, "www")}:/www`, "-v", "vol:/data", "--label", "com.docker.x=1"],
    ...["--memory", "64m", "--cpus", "0.5", "--ulimit", "nofile=64:64", "--tmpfs", "/scratch"],
    ...["--read-only", "-u", "0:0", "-w", "/www", "--health-cmd", "true"],
    ...["--health-interval", "200ms", ...SERVES],
  ]);
  assert.match(id, /^[0-9a-f]{64}\n$/);
  await eventually(
    "the page is served",
    async () => await (await fetch(`http://127.0.0.1:${port}/page`)).text() === "mine",
  );
  // The folder is this machine's: what is written here is seen there.
  assert.equal(await api.ok(MAIN, ["exec", "web", "cat", "page"]), "mine");
  const nobody = await api.run(MAIN, ["exec", "-u", "unheard", "web", "true"]);
  assert.equal(nobody.code, 126);
  assert.match(nobody.stderr, /^Cannot use user unheard: /);
  const exec = await api.run(MAIN, ["exec", "web", "sh", "-c", "echo $A; ulimit -n; exit 4"]);
  assert.deepEqual([exec.code, exec.stdout], [4, "b\n64\n"]);
  assert.equal(await api.ok("docker20", ["exec", "-i", "web", "cat"], { stdin: "in" }), "in");
  assert.equal(
    await api.ok(MAIN, [
      "run",
      "--rm",
      "--network",
      "net",
      "base:1",
      "wget",
      "-qO-",
      "http://web/page",
    ]),
    "mine",
  );
  await eventually(
    "it is healthy",
    async () =>
      /\(healthy\)/.test(
        await api.ok(MAIN, ["ps", "--filter", "name=web", "--format", "{{.Status}}"]),
      ),
  );
  const format =
    '{{.Name}} {{.State.Status}} {{index .Config.Labels "com.docker.x"}} {{.HostConfig.Memory}}';
  assert.equal(
    await api.ok(MAIN, ["inspect", "-f", format, id.trim().slice(0, 12)]),
    "/web running 1 67108864\n",
  );
  assert.match(await api.ok(MAIN, ["port", "web"]), new RegExp(`80/tcp -> 0\\.0\\.0\\.0:${port}`));
  assert.match(await api.ok(MAIN, ["top", "web"]), /httpd -f/);
  assert.match(
    await api.ok(MAIN, ["stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}"]),
    /^web .* \/ 64MiB/,
  );
}

async function copiesAndChanges(api: DockerSocket, folder: string): Promise<void> {
  const local = join(folder, "copied");
  await Deno.writeTextFile(local, "copied");
  await api.ok(MAIN, ["cp", local, "web:/data/there"]);
  await api.ok(MAIN, ["cp", "web:/data/there", `${local}.back`]);
  assert.equal(await Deno.readTextFile(`${local}.back`), "copied");
  assert.equal((await api.run(MAIN, ["cp", "web:/nowhere", "-"])).code, 1);
  await api.ok(MAIN, ["pause", "web"]);
  assert.match(await api.ok(MAIN, ["ps", "--format", "{{.Status}}"]), /\(Paused\)/);
  await api.ok(MAIN, ["unpause", "web"]);
  await api.ok(MAIN, ["rename", "web", "web_2"]);
  const same = await api.run(MAIN, ["rename", "web_2", "web_2"]);
  assert.match(same.stderr, /the same name as its current name/);
  const running = await api.run(MAIN, ["rm", "web_2"]);
  assert.match(running.stderr, /container is running/);
  await api.ok(MAIN, ["stop", "-t", "1", "web_2"]);
  await api.ok(MAIN, ["start", "web_2"]);
  await api.ok(MAIN, ["kill", "web_2"]);
  const exited = ["ps", "-a", "--filter", "status=exited", "--format", "{{.Names}}"];
  await eventually("its end", async () => /^web_2$/m.test(await api.ok(MAIN, exited)));
  const inUse = await api.run(MAIN, ["volume", "rm", "vol"]);
  assert.match(inUse.stderr, /volume is in use/);
  assert.match((await api.run(MAIN, ["network", "rm", "net"])).stderr, /active endpoints/);
  await api.ok(MAIN, ["rm", "-f", "-v", "web_2"]);
  await api.ok(MAIN, ["volume", "rm", "vol"]);
  await api.ok(MAIN, ["network", "rm", "net"]);
  // Times of docker's clients are whole seconds: what has just happened is told a second later.
  await eventually("events tell it", async () => {
    const events = await api.ok(MAIN, [
      ...["events", "--since", "10m", "--until", "0s", "--filter", "container=web_2"],
      ...["--format", "{{.Action}}"],
    ]);
    return ["rename", "die", "kill", "destroy"].every((one) => events.includes(one));
  });
}

async function changesAndExports(api: DockerSocket, folder: string): Promise<void> {
  // What is waited for comes last, and whole.
  const script = "echo new > /etc/part; mv /etc/part /etc/new; exec sleep 1000";
  await api.ok(MAIN, [
    ...["run", "-d", "--name", "kept", "--stop-signal", "KILL", "-v", "kept:/vol", "base:1"],
    ...["sh", "-c", `mkdir /www; touch /www/gone; rm /www/gone; echo v > /vol/in; ${script}`],
  ]);
  for (const program of ["docker20", MAIN] as const) {
    await eventually("the changes are told", async () => {
      const all = (await api.ok(program, ["diff", "kept"])).trim().split("\n").sort();
      assert.deepEqual(all, ["A /etc/new", "A /www", "C /etc"]);
      return true;
    });
  }
  const tar = join(folder, "kept.tar");
  await api.ok(MAIN, ["export", "-o", tar, "kept"]);
  const { stdout } = await new Deno.Command("tar", { args: ["-xOf", tar, "./etc/new"] }).output();
  assert.equal(new TextDecoder().decode(stdout), "new\n");
  await api.ok(MAIN, ["rm", "-fv", "kept"]);
  await api.ok(MAIN, ["volume", "rm", "kept"]);
}

async function updatesAndConnects(api: DockerSocket): Promise<void> {
  await api.ok(MAIN, ["network", "create", "late"]);
  await api.ok(MAIN, ["create", "--name", "later", "--memory", "64m", ...SHARES]);
  const limits = ["--memory", "32m", "--cpus", "0.5", "--restart", "always"];
  await api.ok(MAIN, ["update", ...limits, "later"]);
  await api.ok(MAIN, ["network", "connect", "--alias", "al", "late", "later"]);
  await api.ok(MAIN, ["start", "later"]);
  const format = "{{.HostConfig.Memory}} {{.HostConfig.RestartPolicy.Name}}";
  assert.equal(await api.ok(MAIN, ["inspect", "-f", format, "later"]), "33554432 always\n");
  assert.match(
    await api.ok(MAIN, ["stats", "--no-stream", "--format", "{{.MemUsage}}", "later"]),
    / \/ 32MiB/,
  );
  const page = ["run", "--rm", "--network", "late", "base:1", "wget", "-qO-", "http://al/passwd"];
  await eventually(
    "it answers by its alias",
    async () => /^root:/.test((await api.run(MAIN, page)).stdout),
  );
  // Of a started one, too, which goes on.
  const started = () => api.ok(MAIN, ["inspect", "-f", "{{.State.StartedAt}}", "later"]);
  const before = await started();
  assert.equal(
    await api.ok(MAIN, ["update", "--memory", "48m", "--restart", "on-failure:3", "later"]),
    "later\n",
  );
  const policy = "{{.HostConfig.Memory}} {{json .HostConfig.RestartPolicy}}";
  assert.equal(
    await api.ok(MAIN, ["inspect", "-f", policy, "later"]),
    '50331648 {"Name":"on-failure","MaximumRetryCount":3}\n',
  );
  assert.match(
    await api.ok(MAIN, ["stats", "--no-stream", "--format", "{{.MemUsage}}", "later"]),
    / \/ 48MiB/,
  );
  assert.equal(await started(), before);
  const refused: [string[], RegExp][] = [
    [["update", "--memory", "1m", "later"], /Minimum memory limit allowed is 6MB/],
    [["update", "--cpuset-cpus", "0", "later"], /HostConfig\.CpusetCpus cannot be honoured/],
    [["network", "disconnect", "late", "later"], /change the networks of later: it was started/],
  ];
  for (const [args, message] of refused) {
    const { code, stderr } = await api.run(MAIN, args);
    assert.equal(code, 1, args.join(" "));
    assert.match(stderr, message);
  }
  await api.ok(MAIN, ["rm", "-f", "later"]);
}

async function prunesAll(api: DockerSocket): Promise<void> {
  await api.ok(MAIN, ["create", "--name", "old", "base:1", "true"]);
  const still = ["stats", "--no-stream", "--format", "{{.PIDs}}", "old"];
  assert.equal(await api.ok(MAIN, still), "0\n");
  assert.match(await api.ok(MAIN, ["system", "df"]), /^Images +1 +1 /m);
  const told = await api.ok(MAIN, ["system", "prune", "-f"]);
  assert.match(told, /Deleted Containers:\n[0-9a-f]{64}\n/);
  assert.match(told, /Deleted Networks:\nlate\n/);
  assert.match(told, /Total reclaimed space: /);
  assert.equal(await api.ok(MAIN, ["ps", "-aq"]), "");
  assert.equal(await api.ok(MAIN, ["run", "--rm", "base:1", "echo", "there"]), "there\n");
  for (const choice of [["--filter", "until=1h"], ["-a"]]) {
    const { stderr } = await api.run(MAIN, ["builder", "prune", "-f", ...choice]);
    assert.match(stderr, /cannot prune the build cache by (filters=|all=1)/);
  }
}

async function refuses(api: DockerSocket, server: { url: string }, folder: string): Promise<void> {
  const run = (...args: string[]) => api.run(MAIN, ["run", "--rm", ...args, "base:1", "true"]);
  const refused: [string[], RegExp][] = [
    [["--privileged"], /does not permit privileged/],
    [["--device", "/dev/null"], /does not permit devices/],
    [["-v", "/var/run/docker.sock:/s"], /an engine's own socket/],
    [["-v", `${api.path}:/s`], /an engine's own socket/],
    [["--link", "a:b"], /HostConfig\.Links cannot be honoured/],
    [["--network", "container:x"], /container:x cannot be honoured/],
    [["--cpuset-cpus", "0"], /HostConfig\.CpusetCpus cannot be honoured/],
    [["--network", "absent"], /network absent not found/],
    [["--pull", "never", "--platform", "linux/s390x"], /the specified platform \(linux\/s390x\)/],
  ];
  for (const [args, message] of refused) {
    const { code, stderr } = await run(...args);
    assert.equal(code, 125, args.join(" "));
    assert.match(stderr, message);
  }
  assert.match((await api.run(MAIN, ["inspect", "nothing"])).stderr, /No such object: nothing/);
  assert.equal(await api.ok(MAIN, ["ps", "-aq"]), "");
  // A second one for the same server and records would know nothing of the first one's containers.
  const second = await new Deno.Command(EXECUTABLE, {
    args: ["daemon", "docker"],
    env: {
      ...{ SVC_SERVER: server.url, SVC_CONFIG: "/nonexistent/svc-test-config.yaml" },
      ...{ SVC_DOCKER_SOCK: api.path, XDG_STATE_HOME: join(folder, "state") },
    },
  }).output();
  assert.match(new TextDecoder().decode(second.stderr), /another process listens there/);
}

/** An address of this machine that is not loopback: by it the server counts as one that is elsewhere. */
function outerAddress(): string {
  const found = Deno.networkInterfaces().find(({ family, address }) =>
    family === "IPv4" && !address.startsWith("127.")
  );
  assert.ok(found, "this test needs an address besides loopback");
  return found.address;
}

/** Ports and folders of this machine come to a server elsewhere by `svc daemon docker`, and end with it. */
async function elsewhere(port: number, folder: string): Promise<void> {
  const url = `http://${outerAddress()}:${port}`;
  await Deno.writeTextFile(join(folder, "far"), "far");
  const own = freePort();
  {
    await using api = await startDockerApi({ url });
    await api.ok(MAIN, [
      ...["run", "-d", "--name", "far", "-p", `127.0.0.1:${own}:80`, "-v", `${folder}:/www`],
      ...SERVES,
    ]);
    await eventually(
      "the forwarded port answers",
      async () => await (await fetch(`http://127.0.0.1:${own}/far`)).text() === "far",
    );
    assert.match(await api.ok(MAIN, ["port", "far"]), new RegExp(`127\\.0\\.0\\.1:${own}`));
    await api.ok(MAIN, ["stop", "far"]);
    await eventually(
      "nobody listens",
      () => fetch(`http://127.0.0.1:${own}/far`).then(() => false, () => true),
    );
    await api.ok(MAIN, ["start", "far"]);
    assert.equal(await api.ok(MAIN, ["exec", "far", "cat", "/www/far"]), "far");
  }
  await using again = await startDockerApi({ url });
  await eventually("nothing is left", async () => await again.ok(MAIN, ["ps", "-aq"]) === "");
}

e2eTest("docker API: docker's clients run, see, change and remove containers", NEEDS, async (t) => {
  await using server = await startServer({ listen: "0.0.0.0" });
  await baseImage(server, "base:1");
  const folder = await Deno.makeTempDir({ prefix: "svc-docker-api-" });
  try {
    await using api = await startDockerApi(server);
    await t.step("run: output, input, exit codes", () => runsAndEnds(api));
    await t.step("run -it: a terminal of the caller's size", () => hasATerminal(api));
    await t.step("run -d: ports, folders, networks, health", () => servesAndIsSeen(api, folder));
    await t.step("cp, pause, rename, stop, rm, events", () => copiesAndChanges(api, folder));
    await t.step("diff, export", () => changesAndExports(api, folder));
    await t.step("update, network connect", () => updatesAndConnects(api));
    await t.step("system df, system prune", () => prunesAll(api));
    await t.step("what cannot be honoured is refused by name", () => refuses(api, server, folder));
    await t.step("a server elsewhere: ports and folders", () => elsewhere(server.port, folder));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

e2eTest("docker API: docker compose; a server does not deploy to itself", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using api = await startDockerApi(server);
  const cwd = await Deno.makeTempDir({ prefix: "svc-docker-compose-" });
  const compose = (...args: string[]) => api.ok("compose", args, { cwd });
  try {
    await t.step("up, ps, logs, up again, down", async () => {
      const port = freePort();
      await Deno.writeTextFile(
        join(cwd, "compose.yaml"),
        `name: shop
services:
  db:
    image: base:1
    command: httpd -f -p 80 -h /etc
    volumes: [data:/data]
    healthcheck: { test: "true", interval: 200ms }
    stop_signal: SIGKILL
  web:
    image: base:1
    command: sh -c "echo started; exec httpd -f -p 80 -h /etc"
    depends_on: { db: { condition: service_healthy } }
    ports: ["${port}:80"]
    stop_signal: SIGKILL
volumes: { data: {} }
`,
      );
      await compose("up", "-d");
      const states = await compose("ps", "--format", "{{.Name}} {{.State}}");
      assert.deepEqual(states.trim().split("\n").sort(), [
        "shop-db-1 running",
        "shop-web-1 running",
      ]);
      await eventually(
        "its first words",
        async () => /^web-1 {2}\| started$/m.test(await compose("logs", "web")),
      );
      assert.match(await compose("exec", "-T", "web", "wget", "-qO-", "http://db/passwd"), /root/);
      const before = await compose("ps", "-q");
      await compose("up", "-d");
      assert.equal(await compose("ps", "-q"), before, "nothing has changed");
      await compose("down", "-v");
      assert.equal(await api.ok(MAIN, ["ps", "-aq"]), "");
      assert.equal(await api.ok(MAIN, ["volume", "ls", "-q"]), "");
    });
    await t.step("a server whose engine would be svc's own API says so", async () => {
      await using other = await startServer({
        env: { SVC_DEPLOY_BACKEND: "dockerhost", DOCKER_HOST: `unix://${api.path}` },
      });
      const { code, stderr } = await other.svc(["deploy", "base:1", "--name", "circle"]);
      assert.notEqual(code, 0);
      assert.match(stderr, /is svc itself/);
    });
  } finally {
    await Deno.remove(cwd, { recursive: true });
  }
});

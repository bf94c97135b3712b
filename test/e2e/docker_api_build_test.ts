/** Images and builds of docker's own clients against `svc daemon docker` and a server on bare. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { startAgent } from "../peers/sshd.ts";
import {
  addBuildx,
  CLIENTS_READY,
  type DockerSocket,
  type Program,
  startDockerApi,
} from "./docker_api.ts";
import { baseImage, e2eTest, startServer } from "./harness.ts";

const COMMANDS = ["runc", "conmon", "iptables", "busybox", "skopeo", "docker", "docker-registry"];
const NEEDS = {
  root: true,
  commands: [...COMMANDS, "ssh-agent"],
  files: [CLIENTS_READY],
};

const ID = /^sha256:[0-9a-f]{64}$/;

/** Refused builds tell what stands in the way. */
async function refusal(api: DockerSocket, args: string[], cwd: string, program: Program) {
  const { code, stderr } = await api.run(program, ["build", ...args, "."], { cwd });
  assert.notEqual(code, 0, args.join(" "));
  return stderr;
}

async function writeContext(folder: string): Promise<void> {
  const files = {
    "Dockerfile": `# syntax=registry.invalid/nobody/frontend:1
FROM base:1 AS first
ARG WHO=nobody
COPY hello.txt /srv/
RUN --mount=type=secret,id=token,required=true echo "$WHO $(wc -c < /run/secrets/token)" > /srv/who
FROM first
LABEL made=here
`,
    "Plain":
      "FROM base:1\nARG WHO\nCOPY . /srv/\nRUN echo $WHO > /srv/who && test ! -e /srv/left\n",
    "Agent": 'FROM base:1\nRUN --mount=type=ssh test -S "$SSH_AUTH_SOCK"\n',
    "Bad": "FROM base:1\nRUN echo said; exit 3\n",
    "hello.txt": "hello",
    "left": "not sent",
    ".dockerignore": "left\n",
    "token": "s3cret",
  };
  for (const [name, text] of Object.entries(files)) {
    await Deno.writeTextFile(join(folder, name), text);
  }
}

async function buildsWithSessions(api: DockerSocket, cwd: string): Promise<void> {
  for (const program of ["docker20", "docker28"] as const) {
    const name = `${program}:1`;
    const { code, stderr } = await api.run(program, [
      ...["build", "--progress", "plain", "-t", name, "--build-arg", `WHO=${program}`],
      ...["--secret", "id=token,src=token", "."],
    ], { cwd, env: { DOCKER_BUILDKIT: "1" } });
    assert.equal(code, 0, stderr);
    assert.match(stderr, /RUN --mount=type=secret/);
    assert.doesNotMatch(stderr, /s3cret/);
    const made = await api.ok(program, ["run", "--rm", name, "cat", "/srv/who", "/srv/hello.txt"]);
    assert.equal(made, `${program} 6\nhello`);
    const id = (await api.ok(program, ["build", "-q", "-f", "Plain", "."], { cwd })).trim();
    assert.match(id, ID);
    assert.equal(await api.ok(program, ["run", "--rm", id, "cat", "/srv/hello.txt"]), "hello");
  }
  const failed = await refusal(api, ["-f", "Bad", "--progress", "plain"], cwd, "docker28");
  assert.match(failed, /said/);
  assert.match(failed, /Bad:2: RUN echo said; exit 3: exit code 3/);
  const bare = await refusal(api, ["--progress", "plain"], cwd, "docker28");
  assert.match(bare, /token/, "the secret is required, and not lent");
}

async function buildsClassically(api: DockerSocket, cwd: string): Promise<void> {
  const env = { DOCKER_BUILDKIT: "0" };
  for (const program of ["docker20", "docker28"] as const) {
    const said = await api.ok(
      program,
      ["build", "-f", "Plain", "-t", "classic:1", "--build-arg", `WHO=${program}`, "."],
      { cwd, env },
    );
    assert.match(said, /Successfully built [0-9a-f]{12}\nSuccessfully tagged classic:1/);
    assert.equal(
      await api.ok(program, ["run", "--rm", "classic:1", "cat", "/srv/who"]),
      `${program}\n`,
    );
    const id = await api.ok(program, ["build", "-q", "-"], { stdin: "FROM base:1\n", env });
    assert.match(id.trim(), ID);
    const { stderr } = await api.run(program, ["build", "-"], {
      stdin: "FROM base:1\nRUN exit 5\n",
      env,
    });
    assert.match(stderr, /RUN exit 5: exit code 5/);
  }
  const { stderr } = await api.run("docker20", ["build", "--memory", "1g", "."], { cwd, env });
  assert.match(stderr, /svc cannot build with memory=1073741824/);
}

/** An agent is lent to the build that is given it, and to no other. */
async function lendsAgents(api: DockerSocket, cwd: string): Promise<void> {
  await using agent = await startAgent();
  const env = { SSH_AUTH_SOCK: agent.socket };
  const build = (...args: string[]) =>
    api.run("docker28", ["build", "--no-cache", "-f", "Agent", ...args, "."], { cwd, env });
  const lent = await build("--ssh", "default");
  assert.equal(lent.code, 0, lent.stderr);
  assert.notEqual((await build()).code, 0);
}

async function refusesByName(api: DockerSocket, cwd: string): Promise<void> {
  const cases: [string[], RegExp][] = [
    [["--shm-size", "1g"], /svc cannot build with shm-size=1073741824/],
    [["--ulimit", "nofile=5"], /svc cannot build with ulimit/],
    [["--allow", "security.insecure"], /svc cannot build with --allow security.insecure/],
    [["--network", "host"], /svc cannot build with --allow network.host/],
    [["--output", "type=local,dest=out"], /svc cannot build with --output type=local/],
    [["-f", "Missing"], /open Missing: no such file or directory/],
  ];
  for (const [args, expected] of cases) {
    assert.match(await refusal(api, args, cwd, "docker28"), expected);
  }
}

e2eTest("docker API: builds by buildx, docker 20.10 and the classic builder", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using api = await startDockerApi(server);
  await addBuildx(api);
  const cwd = await Deno.makeTempDir({ prefix: "svc-docker-build-test-" });
  try {
    await writeContext(cwd);
    await t.step(
      "with sessions: context, secrets, progress, failures",
      () => buildsWithSessions(api, cwd),
    );
    await t.step("classic", () => buildsClassically(api, cwd));
    await t.step("an SSH agent", () => lendsAgents(api, cwd));
    await t.step("what cannot be honoured is named", () => refusesByName(api, cwd));
    await t.step("buildx prunes the server's cache as a whole", async () => {
      const prune = ["buildx", "prune", "-f"];
      assert.match(await api.ok("docker28", prune), /^Total:\s+\S+/m);
      for (const choice of [["--filter", "until=1h"], ["-a"]]) {
        const { code, stderr } = await api.run("docker28", [...prune, ...choice]);
        assert.notEqual(code, 0);
        assert.match(stderr, /cannot prune the build cache by (keepDuration=36|all=true)/);
      }
    });
    await t.step("docker compose build", async () => {
      await Deno.writeTextFile(
        join(cwd, "compose.yaml"),
        `name: made
services:
  a: { build: { context: ., args: { WHO: compose }, secrets: [token] } }
  b: { image: "b:1", build: { context: ., dockerfile_inline: "FROM base:1\\nCOPY hello.txt /b\\n" } }
secrets: { token: { file: ./token } }
`,
      );
      await api.ok("compose", ["build"], { cwd });
      const made = await api.ok("docker28", ["run", "--rm", "made-a", "cat", "/srv/who"]);
      assert.equal(made, "compose 6\n");
      assert.equal(await api.ok("docker28", ["run", "--rm", "b:1", "cat", "/b"]), "hello");
    });
  } finally {
    await Deno.remove(cwd, { recursive: true });
  }
});

e2eTest("docker API: images: push, pull, tag, list, save, load, remove", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using registry = await startDockerRegistry({ login: true });
  await using api = await startDockerApi(server);
  const there = `${registry.host}/some/base:1`;
  const cwd = await Deno.makeTempDir({ prefix: "svc-docker-images-" });
  const docker = (...args: string[]) => api.ok("docker28", args, { cwd });
  const names = async (...args: string[]) =>
    (await docker("images", "--format", "{{.Repository}}:{{.Tag}}", ...args)).trim().split("\n")
      .filter(Boolean).sort();
  try {
    await t.step("push and pull need the caller's login, and take it", async () => {
      await docker("tag", "base:1", there);
      assert.deepEqual(await names(), [there, "base:1"].sort());
      assert.notEqual((await api.run("docker28", ["push", there])).code, 0);
      await api.ok("docker28", ["login", "-u", "user", "--password-stdin", registry.host], {
        stdin: "secret",
      });
      assert.match(await docker("push", there), /1: digest: sha256:[0-9a-f]{64} size: \d+/);
      await docker("rmi", there);
      for (const program of ["docker20", "docker28"] as const) {
        assert.match(await api.ok(program, ["pull", there]), /Status: (Downloaded|Image is up)/);
      }
      const absent = await api.run("docker28", ["pull", `${registry.host}/some/base:none`]);
      assert.match(absent.stderr, /manifest for .* not found/);
    });
    await t.step("list, inspect, history, save, remove, load", async () => {
      assert.deepEqual(await names("--filter", "reference=base"), ["base:1"]);
      const inspected = JSON.parse(await docker("image", "inspect", "base:1"))[0];
      assert.match(inspected.Id, ID);
      assert.deepEqual(inspected.RepoTags.sort(), [there, "base:1"].sort());
      assert.match(await docker("history", "base:1"), /layer 0/);
      await docker("save", "-o", "all.tar", "base:1", there);
      const { stderr } = await api.run("docker28", ["rmi", inspected.Id]);
      assert.match(stderr, /must be forced/);
      await docker("tag", "base:1", "used:1");
      await docker("create", "--name", "user", "used:1", "true");
      await docker("rmi", "used:1", there);
      assert.match((await api.run("docker28", ["rmi", "base:1"])).stderr, /is using it/);
      await docker("rm", "user");
      await docker("tag", "base:1", there);
      await docker("rmi", "-f", inspected.Id);
      assert.deepEqual(await names(), []);
      assert.match(await docker("load", "-i", "all.tar"), /Loaded image: base:1/);
      assert.deepEqual(await names(), [there, "base:1"].sort());
    });
    await t.step("what cannot be honoured is named", async () => {
      const cases: [string[], RegExp][] = [
        [["search", "x"], /svc cannot search/],
        [["commit", "x", "y"], /docker commit/],
        [["image", "prune", "-af"], /does not prune images that have names/],
        [["import", "all.tar"], /cannot import/],
        [["image", "inspect", "none"], /No such image: none:latest/],
      ];
      for (const [args, expected] of cases) {
        const { code, stderr } = await api.run("docker28", args, { cwd });
        assert.notEqual(code, 0);
        assert.match(stderr, expected);
      }
    });
  } finally {
    await Deno.remove(cwd, { recursive: true });
  }
});

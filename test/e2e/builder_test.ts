/** Builds of a server that cannot mount: it makes a builder through the container engine, and adopts it later. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { tar } from "../../scripts/build/tar.ts";
import { eventually } from "../waits.ts";
import {
  AS_STRANGER,
  BARE_BASE,
  BASE,
  type Engine,
  NEEDS,
  startEngine,
  startFront,
} from "./builder_engine.ts";
import {
  baseImage,
  e2eTest,
  EXECUTABLE,
  freePort,
  freeSubnetBase,
  runTool,
  type Server,
} from "./harness.ts";

interface Builder {
  Id: string;
  Image: string;
  State: { Running: boolean };
  Config: { Image: string; Env: string[]; Cmd: string[] };
  HostConfig: { Privileged: boolean; NetworkMode: string };
  Mounts: { Type: string; Name: string; Destination: string }[];
}

/** A server in front of the engine, and a build context of its own. */
interface Stage {
  engine: Engine;
  front: Server;
  context: string;
  /** The first builder. */
  first: Builder;
}

const dockerfile = (base: string) => `FROM ${base}\nCOPY file /file\nRUN cat /file; id -u\n`;

async function withContext(server: Server, fn: (folder: string) => Promise<void>) {
  await baseImage(server, "base:v1");
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-builder-context-" });
  try {
    await Deno.writeTextFile(`${folder}/Dockerfile`, dockerfile(`${server.host}/base:v1`));
    await Deno.writeTextFile(`${folder}/file`, "of the caller\n");
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Builds, and gives the digest. */
async function build(server: Server, folder: string, ...more: string[]): Promise<string> {
  const built = await server.svc(["build", "-t", "app:v1", "--progress", "plain", ...more, folder]);
  assert.equal(built.code, 0, `${built.stderr}\n${server.log()}`);
  return /@(sha256:[0-9a-f]{64})/.exec(built.stdout)![1];
}

async function builderOf({ daemon }: Engine): Promise<Builder> {
  const { stdout } = await daemon.docker("inspect", "svc-builder");
  return JSON.parse(stdout)[0];
}

const portOf = ({ Config }: Builder) =>
  Number(Config.Cmd.find((word) => word.startsWith("127.0.0.1:"))!.split(":")[1]);

const DELEGATED = [
  "build engine cannot mount(2) as this user; using a containerized builder",
  "delegating builds to containerized builder",
];

/** The lines of the log that tell of a builder. */
const told = (server: Server): [string, string | undefined][] =>
  server.lines().filter(({ msg }) => DELEGATED.includes(msg))
    .map(({ msg, url }) => [msg, url as string | undefined]);

async function manifestOf({ url }: Server, reference: string): Promise<Response> {
  const answer = await fetch(`${url}/v2/app/manifests/${reference}`);
  await answer.body?.cancel();
  return answer;
}

async function toldBefore({ front }: Stage): Promise<void> {
  await front.logged(/builds run in a container, which the first build starts/);
  const info = await (await fetch(`${front.url}/.svc/v1/info`)).json();
  assert.deepEqual(info.build, { at: "container" });
  const { stdout } = await front.svc(["doctor"]);
  assert.match(stdout, /^ok +builds: a container runs them/m);
}

async function bothWays({ engine, front, context }: Stage): Promise<void> {
  assert.equal((await engine.daemon.docker("ps", "-aq")).stdout, "");
  const digest = await build(front, context);
  const archive = tar([
    { path: "Dockerfile", data: dockerfile(`${front.host}/base:v1`) },
    { path: "file", data: "of the caller\n" },
  ]);
  const url = `${front.url}/.svc/v1/build?t=app:v2`;
  const posted = await fetch(url, { method: "POST", body: archive });
  const events = (await posted.text()).trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(events.at(-1).type, "result", JSON.stringify(events.at(-1)));
  const attached = await manifestOf(front, "v1");
  assert.equal(attached.headers.get("docker-content-digest"), digest);
  assert.equal((await manifestOf(front, "v2")).status, 200);
  const port = portOf(await builderOf(engine));
  assert.deepEqual(told(front), [
    [DELEGATED[0], undefined],
    [DELEGATED[1], `ws://127.0.0.1:${port}`],
  ]);
}

async function asSpecified({ engine, first }: Stage): Promise<void> {
  const hash = createHash("sha256").update(await Deno.readFile(EXECUTABLE)).digest("hex");
  const { stdout: id } = await engine.daemon.docker(
    ...["inspect", "-f", "{{.Id}}", `svc-builder:${hash}`],
  );
  assert.equal(first.Config.Image, id.trim());
  assert.equal(first.HostConfig.Privileged, true);
  assert.equal(first.HostConfig.NetworkMode, "host");
  assert.deepEqual(
    first.Mounts.map(({ Type, Name, Destination }) => [Type, Name, Destination]),
    [["volume", "svc-builder-cache", "/var/lib/svc"]],
  );
  const { stdout } = await engine.daemon.docker(
    ...["run", "--rm", "--entrypoint", "sh", first.Config.Image, "-c", "command -v runc"],
  );
  assert.equal(stdout, "/usr/sbin/runc\n", "it was installed while the image was made");
}

async function closedToOthers({ engine, front, first }: Stage): Promise<void> {
  const url = `http://127.0.0.1:${portOf(first)}/.svc/v1`;
  for (const authorization of ["", "Bearer wrong"]) {
    for (const [method, path] of [["POST", "build?t=x"], ["GET", "deployments"]]) {
      const body = method === "POST" ? "x" : undefined;
      const answer = await fetch(`${url}/${path}`, { method, body, headers: { authorization } });
      await answer.body?.cancel();
      assert.equal(answer.status, 401, path);
    }
  }
  // The token is in the container's environment, which only the daemon shows.
  const token = first.Config.Env.find((text) => text.startsWith("SVC_AUTH_TOKEN="))!.slice(15);
  assert.match(token, /^[0-9a-f]{64}$/);
  const open = await fetch(`${url}/info`, { headers: { authorization: `Bearer ${token}` } });
  await open.body?.cancel();
  assert.equal(open.status, 200);
  assert(!front.log().includes(token));
  const found = await new Deno.Command("grep", { args: ["-rq", token, front.dataDir] }).output();
  assert.equal(found.code, 1);
  const args = [...AS_STRANGER, "docker", "-H", engine.daemon.host, "inspect", "svc-builder"];
  assert.notEqual((await new Deno.Command("setpriv", { args }).output()).code, 0);
}

async function adopted({ engine, front, context, first }: Stage): Promise<void> {
  await front.restart();
  await build(front, context, "--no-cache");
  assert.equal((await builderOf(engine)).Id, first.Id);
  await engine.daemon.docker("stop", "-t", "60", "svc-builder");
  await build(front, context, "--no-cache");
  const again = await builderOf(engine);
  assert.equal(again.State.Running, true);
  assert.notEqual(again.Id, first.Id, "each run has a port and a token of its own");
}

/** Another user's server on a port, which says that it is ready. `end` gives what it was asked. */
async function startThief(port: number, folder: string): Promise<{ end(): Promise<string> }> {
  await Deno.mkdir(folder);
  await Deno.writeTextFile(`${folder}/readyz`, "ready\n");
  const child = new Deno.Command("setpriv", {
    args: [
      ...[...AS_STRANGER, "busybox", "httpd", "-f", "-vv"],
      ...["-p", `127.0.0.1:${port}`, "-h", folder],
    ],
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const heard = new Response(child.stderr).text();
  await eventually("it listens", async () => {
    const { stdout } = await runTool("ss", ["-tlnpH", `sport = :${port}`]);
    return stdout.includes(`pid=${child.pid},`);
  });
  return {
    async end() {
      child.kill("SIGKILL");
      await child.status;
      return await heard;
    },
  };
}

async function stolenPort({ engine, front, context }: Stage): Promise<void> {
  const before = await builderOf(engine);
  await engine.daemon.docker("kill", "svc-builder");
  const port = portOf(before);
  const thief = await startThief(port, `${engine.folder}/www`);
  try {
    await build(front, context, "--no-cache");
  } finally {
    assert.equal(await thief.end(), "", "nobody asked it anything");
  }
  const moved = await builderOf(engine);
  assert.notEqual(moved.Id, before.Id);
  assert.notEqual(portOf(moved), port);
}

async function otherSettings({ engine, front }: Stage): Promise<void> {
  const before = await builderOf(engine);
  await front.stop();
  await using other = await startFront(engine, "other", { SVC_BUILD_PIDS_LIMIT: "100" });
  await withContext(other, async (context) => {
    await build(other, context);
  });
  const after = await builderOf(engine);
  assert.notEqual(after.Id, before.Id);
  assert.equal(after.Config.Image, before.Config.Image);
  assert(after.Config.Env.includes("SVC_BUILD_PIDS_LIMIT=100"));
}

/** SPEC "Builder delegation behaviour" 8: a builder that a person runs, from the image that was made. */
async function selfManaged({ engine, first }: Stage): Promise<void> {
  const port = freePort();
  // The front has the same one, and its networks are taken away with it.
  const SVC_CNI_SUBNET_BASE = freeSubnetBase();
  await engine.daemon.docker("rm", "-f", "svc-builder");
  await engine.daemon.docker(
    ...["run", "-d", "--name", "own", "--privileged", "--network", "host"],
    ...["-v", "own:/var/lib/svc", "-e", `SVC_CNI_SUBNET_BASE=${SVC_CNI_SUBNET_BASE}`],
    ...[first.Config.Image, "svc", "serve", "--addr", `127.0.0.1:${port}`],
    ...["--storage", "/var/lib/svc/registry"],
  );
  await eventually("it is ready", async () => {
    const ready = await fetch(`http://127.0.0.1:${port}/readyz`);
    await ready.body?.cancel();
    return ready.ok;
  });
  const env = { SVC_BUILDER_URL: `ws://127.0.0.1:${port}`, SVC_CNI_SUBNET_BASE };
  await using front = await startFront(engine, "self-managed", env);
  await withContext(front, async (context) => {
    const digest = await build(front, context);
    assert.equal((await manifestOf(front, digest)).status, 200);
  });
  assert.deepEqual(told(front), []);
  const { stdout } = await engine.daemon.docker("ps", "-a", "--format", "{{.Names}}");
  assert.equal(stdout, "own\n", "no other builder was made");
  await engine.daemon.docker("rm", "-f", "own");
}

e2eTest(
  "a server that cannot mount builds in a container, which later ones adopt",
  NEEDS,
  async (t) => {
    await using engine = await startEngine();
    await using front = await startFront(engine, "front");
    await withContext(front, async (context) => {
      const stage = { engine, front, context } as Stage;
      await t.step("the server says so from its start", () => toldBefore(stage));
      await t.step("the first build makes it; both ways to build are delegated", async () => {
        await bothWays(stage);
        stage.first = await builderOf(engine);
      });
      await t.step("it is what SPEC says", () => asSpecified(stage));
      await t.step("nobody else builds there", () => closedToOthers(stage));
      await t.step("a server that starts again adopts it while it runs", () => adopted(stage));
      await t.step("another user who takes its port is told nothing", () => stolenPort(stage));
      await t.step("a server with other settings makes another one", () => otherSettings(stage));
      await t.step("a builder that a person runs is used as it is", () => selfManaged(stage));
    });
  },
);

/** A server with this environment refuses a build with these words. */
async function refused(engine: Engine, name: string, env: Record<string, string>, told: RegExp[]) {
  await using front = await startFront(engine, name, env);
  await withContext(front, async (context) => {
    const built = await front.svc(["build", "-t", "app:v1", context]);
    assert.equal(built.code, 1, name);
    for (const pattern of told) assert.match(built.stderr, pattern);
  });
}

e2eTest("where no builder can be made, builds say why", NEEDS, async (t) => {
  await using engine = await startEngine();
  const cannot = /Cannot build: failed to mount .*\/build: operation not permitted/;
  const cases: [name: string, env: Record<string, string>, ...told: RegExp[]][] = [
    ["off", { SVC_BUILDER_AUTO: "off" }, cannot, /SVC_BUILDER_URL/],
    [
      "without a daemon",
      { DOCKER_HOST: "unix:///nonexistent/docker.sock" },
      cannot,
      /no such socket/,
    ],
    [
      "with a daemon elsewhere",
      { DOCKER_HOST: `tcp://127.0.0.1:${freePort()}` },
      /Cannot start a builder: .* is not on this host/,
    ],
    [
      "on a base without runc",
      { SVC_BUILDER_BASE_IMAGE: BARE_BASE },
      /the base image has no runc/,
      /SVC_BUILDER_BASE_IMAGE/,
    ],
    [
      "by an image that nobody has",
      { SVC_BUILDER_IMAGE: "localhost:1/svc:nowhere" },
      /Cannot pull the builder's image localhost:1\/svc:nowhere/,
    ],
  ];
  const builders = async () =>
    (await engine.daemon.docker("ps", "-aq", "-f", "name=svc-builder")).stdout;
  for (const [name, env, ...told] of cases) {
    await t.step(name, async () => {
      await refused(engine, name.replaceAll(" ", "-"), env, told);
      assert.equal(await builders(), "");
    });
  }
  await t.step("where another container has the name", async () => {
    await engine.daemon.docker("create", "--name", "svc-builder", BASE, "true");
    await refused(engine, "taken", {}, [
      /there is a container svc-builder that no svc server made/,
    ]);
    assert.notEqual(await builders(), "", "it is left alone");
  });
});

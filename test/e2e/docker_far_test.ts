/** Workloads on a Docker daemon of another host: their companions serve credentials, and mount the caller's files. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { type DockerdPeer, startDockerd } from "../peers/dockerd.ts";
import { eventually } from "../waits.ts";
import { ok } from "./commands.ts";
import { e2eTest, EXECUTABLE, freePort, type Server, startServer, svc } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = {
  root: true,
  files: [EXECUTABLE],
  commands: ["dockerd", "docker", "busybox", "unshare", "nsenter", "ip", "iptables", "runc"],
};

const MARK = `mark-${crypto.randomUUID()}`;
const API_PORT = freePort();

const SOURCES = [
  {
    ...{ name: "fixed", backend: "static", config: { token: `${MARK}-fixed` } },
    deliver: [{ kind: "endpoint" }],
  },
  {
    ...{ name: "api", backend: "static", config: { token: `${MARK}-api` } },
    deliver: [{ kind: "endpoint", upstream: `http://127.0.0.1:${API_PORT}`, envVar: "API_URL" }],
  },
];

interface Scene {
  t: Deno.TestContext;
  folder: string;
  daemon: DockerdPeer;
  server: Server;
}

async function write({ folder }: Scene, more: Record<string, unknown> = {}): Promise<string> {
  const path = join(folder, "web.json");
  const command = ["sh", "-c", "echo serving; cat /data/a; exec sleep 1000"];
  const spec = { name: "web", image: "base:1", command, stopSignal: "SIGKILL" };
  await Deno.writeTextFile(path, JSON.stringify({ ...spec, ...more }));
  return path;
}

const inside = ({ server }: Scene, script: string) =>
  server.svc(["exec", "web", "--", "sh", "-c", script]);

/** Ends a session in good order. */
async function end(client: Client): Promise<void> {
  client.kill("SIGINT");
  await client.ended;
}

async function credentials(scene: Scene): Promise<void> {
  const { t, daemon, server } = scene;
  await t.step("what a companion cannot have is refused by name", async () => {
    const [one] = SOURCES;
    const wellKnown = { provider: "aws-imds", wellKnown: "169.254.169.254" };
    const sources = [{ ...one, deliver: [{ kind: "endpoint", ...wellKnown }] }];
    const path = await write(scene, { credentials: { sources } });
    const { code, stderr } = await server.svc(["deploy", "--session", "-f", path]);
    assert.equal(code, 1);
    assert.match(stderr, /the role credential .* did not start: .*169\.254\.169\.254/);
  });

  const path = await write(scene, { credentials: { sources: SOURCES } });
  await using client = new Client(server, ["-f", path]);
  await client.wrote(/web is deployed/);
  await t.step("values, and requests to an upstream, of declared names alone", async () => {
    const { stdout } = await inside(scene, "wget -qO- $SVC_CREDENTIAL_FIXED_URL");
    assert.deepEqual(JSON.parse(stdout), { values: { token: `${MARK}-fixed` } });
    const asked: string[] = [];
    await using _api = Deno.serve(
      { hostname: "127.0.0.1", port: API_PORT, onListen() {} },
      ({ headers }) => {
        asked.push(headers.get("authorization") ?? "");
        return new Response("of the api");
      },
    );
    assert.equal((await inside(scene, "wget -qO- $API_URL/user")).stdout, "of the api");
    assert.deepEqual(asked, [`Bearer ${MARK}-api`]);
    assert.notEqual((await inside(scene, "wget -qO- $SVC_CREDENTIALS_URL/api")).code, 0);
  });
  await t.step("nothing of them in what the engine says of the companion", async () => {
    const { stdout: ids } = await daemon.docker("ps", "-aq");
    const { stdout } = await daemon.docker("inspect", ...ids.trim().split("\n"));
    assert.ok(stdout.includes("SVC_CARETAKER_CONFIG") && !stdout.includes(MARK));
  });
  await t.step("after a restart of the server they are there again", async () => {
    await server.restart();
    await eventually(
      "the endpoint",
      async () =>
        (await inside(scene, "wget -qO- $SVC_CREDENTIAL_FIXED_URL")).stdout.includes(MARK),
    );
  });
  await end(client);
}

async function mounts(scene: Scene): Promise<void> {
  const { t, daemon, server, folder } = scene;
  const own = join(folder, "own");
  await Deno.mkdir(own);
  await Deno.writeTextFile(join(own, "a"), "of the caller\n");
  const path = await write(scene);
  const deploy = async () => {
    const shown = ["--mount", `${own}:/data`, "--mount", `${own}/a:/etc/a:ro`];
    const client = new Client(server, ["-f", path, ...shown]);
    await client.wrote(/web is deployed/);
    return client;
  };
  const left = async () =>
    (await daemon.docker("ps", "-aq")).stdout + (await daemon.docker("volume", "ls", "-q")).stdout;

  await t.step("the caller's files, read and written in place, over a restart", async () => {
    await using client = await deploy();
    const script = "cat /data/a; echo back > /data/b; cat /etc/a; echo no > /etc/a";
    const told = await inside(scene, script);
    assert.equal(told.stdout, "of the caller\nof the caller\n");
    assert.match(told.stderr, /Read-only file system/);
    assert.equal(await Deno.readTextFile(join(own, "b")), "back\n");
    await ok(server, ["restart", "web"]);
    assert.equal((await inside(scene, "cat /data/b")).stdout, "back\n");
    await end(client);
    await eventually("nothing is left", async () => await left() === "");
  });
  await t.step("a companion that is killed ends the session, which says why", async () => {
    await using client = await deploy();
    const { stdout: names } = await daemon.docker("ps", "--format", "{{.Names}}");
    const companion = names.split("\n").find((name) => name.includes(".files"))!;
    const { stdout } = await daemon.docker("inspect", "-f", "{{.State.Pid}}", companion);
    const [program, ...args] = daemon.inside("kill", "-9", stdout.trim());
    await new Deno.Command(program, { args }).output();
    await client.wrote(/the companion that served them was started again/);
    await client.ended;
    await eventually("nothing is left", async () => await left() === "");
  });
}

e2eTest("a far Docker daemon: what companions do for its workloads", NEEDS, async (t) => {
  const folder = await Deno.makeTempDir({ prefix: "svc-e2e-far-" });
  try {
    await using daemon = await startDockerd(join(folder, "daemon"), {
      ...{ network: "own", tcp: "plain" },
    });
    await busyboxArchive(join(folder, "root.tar"));
    await daemon.docker("import", join(folder, "root.tar"), "base:1");
    const archive = join(folder, "agent.tar");
    const made = await svc(["image", "agent", `docker-archive:${archive}:svc-agent:1`]);
    assert.equal(made.code, 0, made.stderr);
    await daemon.docker("load", "-i", archive);
    using _network = daemon.enter();
    const port = freePort();
    await using server = await startServer({
      listen: "0.0.0.0",
      port,
      env: {
        ...{ SVC_DEPLOY_BACKEND: "dockerhost", DOCKER_HOST: daemon.tcp, SVC_DOCKER_REMOTE: "1" },
        SVC_AGENT_IMAGE: "svc-agent:1",
        SVC_ADVERTISE_URL: `http://172.17.0.1:${port}`,
      },
    });
    const scene = { t, folder, daemon, server };
    await credentials(scene);
    await mounts(scene);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

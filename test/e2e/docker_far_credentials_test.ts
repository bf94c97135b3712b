/** Credentials of workloads on a Docker daemon of another host: their companions serve the endpoints. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { busyboxArchive } from "../peers/base_image.ts";
import { startDockerd } from "../peers/dockerd.ts";
import { e2eTest, EXECUTABLE, freePort, startServer, svc } from "./harness.ts";
import { Client } from "./session_client.ts";
import { eventually } from "./waits.ts";

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

e2eTest("a far Docker daemon: companions serve the endpoints of credentials", NEEDS, async (t) => {
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
    const exec = (script: string) => server.svc(["exec", "web", "--", "sh", "-c", script]);
    const write = async (sources: unknown[]) => {
      const path = join(folder, "web.json");
      const command = ["sh", "-c", "echo serving; exec sleep 1000"];
      const spec = { name: "web", image: "base:1", command, stopSignal: "SIGKILL" };
      await Deno.writeTextFile(path, JSON.stringify({ ...spec, credentials: { sources } }));
      return path;
    };

    await t.step("what a companion cannot have is refused by name", async () => {
      const [one] = SOURCES;
      const wellKnown = { provider: "aws-imds", wellKnown: "169.254.169.254" };
      const path = await write([{ ...one, deliver: [{ kind: "endpoint", ...wellKnown }] }]);
      const { code, stderr } = await server.svc(["deploy", "--session", "-f", path]);
      assert.equal(code, 1);
      assert.match(stderr, /the role credential .* did not start: .*169\.254\.169\.254/);
    });

    await using client = new Client(server, ["-f", await write(SOURCES)]);
    await client.wrote(/web is deployed/);
    await t.step("values, and requests to an upstream, of declared names alone", async () => {
      const { stdout } = await exec("wget -qO- $SVC_CREDENTIAL_FIXED_URL");
      assert.deepEqual(JSON.parse(stdout), { values: { token: `${MARK}-fixed` } });
      const asked: string[] = [];
      await using _api = Deno.serve(
        { hostname: "127.0.0.1", port: API_PORT, onListen() {} },
        ({ headers }) => {
          asked.push(headers.get("authorization") ?? "");
          return new Response("of the api");
        },
      );
      assert.equal((await exec("wget -qO- $API_URL/user")).stdout, "of the api");
      assert.deepEqual(asked, [`Bearer ${MARK}-api`]);
      assert.notEqual((await exec("wget -qO- $SVC_CREDENTIALS_URL/api")).code, 0);
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
        async () => (await exec("wget -qO- $SVC_CREDENTIAL_FIXED_URL")).stdout.includes(MARK),
      );
    });
    client.kill("SIGINT");
    await client.ended;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

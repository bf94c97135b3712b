/** `svc deploy --session` on the bare backend: ports, logs, and every way in which a session ends. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { eventually } from "../waits.ts";
import { e2eTest, freePort, type Server, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "curl"] };

const DOCKERFILE = `FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
COPY index.html /srv/index.html
STOPSIGNAL SIGKILL
CMD ["sh", "-c", "echo serving; exec httpd -f -v -p 8080 -h /srv"]
`;

async function build(server: Server, folder: string): Promise<void> {
  await Deno.writeTextFile(join(folder, "Dockerfile"), DOCKERFILE);
  await Deno.copyFile("/bin/busybox", join(folder, "busybox"));
  await Deno.writeTextFile(join(folder, "index.html"), "hello from the session\n");
  const { code, stderr } = await server.svc(["build", "-t", "app:v1", folder]);
  assert.equal(code, 0, stderr);
}

async function names(server: Server): Promise<string[]> {
  const answer = await fetch(`${server.url}/.svc/v1/deployments`);
  return (await answer.json() as { name: string }[]).map(({ name }) => name);
}

const none = (server: Server) =>
  eventually("the removal", async () => (await names(server)).length === 0);

async function curl(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command("curl", {
    args: ["-sS", "--max-time", "60", "--noproxy", "", ...args],
  }).output();
  const decoder = new TextDecoder();
  assert.equal(code, 0, decoder.decode(stderr));
  return decoder.decode(stdout).trim();
}

const PAGE = "hello from the session";

e2eTest(
  "deploy --session: the conduit answers; interrupts, ends and restarts",
  NEEDS,
  async (t) => {
    await using server = await startServer({ env: { SVC_SESSION_GRACE: "10m" } });
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-session-" });
    const file = async (spec: Record<string, unknown>) => {
      const path = join(folder, `${crypto.randomUUID()}.yaml`);
      await Deno.writeTextFile(path, JSON.stringify({ image: "app:v1", ...spec }));
      return path;
    };
    try {
      await build(server, folder);
      const web = await file({ name: "web", ports: [`127.0.0.1:${freePort()}:8080`] });

      await t.step("ports and logs, over a restart of the server, until SIGINT", async () => {
        await using client = new Client(server, ["-f", web]);
        const [, address] = await client.wrote(/^(127\.0\.0\.1:\d+) -> web:8080\/tcp$/m);
        await client.wrote(/^serving$/m);
        assert.equal(await curl(`http://${address}/`), PAGE);
        await client.wrote(/GET .*200|response:200/);
        const second = await server.svc(["deploy", "--session", "-f", web]);
        assert.equal(second.code, 1);
        assert.match(second.stderr, /a session of anonymous at 127\.0\.0\.1 holds it since/);
        await server.restart();
        await client.wrote(/the session is resumed/);
        assert.deepEqual(await names(server), ["web"]);
        assert.equal(await curl(`http://${address}/`), PAGE);
        client.kill("SIGINT");
        assert.deepEqual((await client.ended).code, 0, client.all);
        await none(server);
        assert.equal(client.stdout.match(/^serving$/mg)?.length, 1, "no line comes twice");
      });

      await t.step("the workload's own end is the client's", async () => {
        const command = ["sh", "-c", "until [ -e /go ]; do sleep 0.1; done; echo done; exit 3"];
        const job = await file({ name: "job", restart: "no", command });
        await using client = new Client(server, ["-f", job]);
        await client.wrote(/^job is deployed/m);
        const go = await server.svc(["exec", "job", "touch", "/go"]);
        assert.equal(go.code, 0, go.stderr);
        assert.equal((await client.ended).code, 3, client.all);
        assert.match(client.stdout, /^done$/m);
        await none(server);
      });

      await t.step("a deploy that fails is an error, and leaves nothing", async () => {
        const bad = await file({ name: "bad", restart: "no", command: ["sh", "-c", "exit 9"] });
        const { code, stderr } = await server.svc(["deploy", "--session", "-f", bad]);
        assert.equal(code, 1);
        assert.match(stderr, /exited with code 9/);
        await none(server);
      });

      await t.step("conduit.mode socks5: one proxy", async () => {
        const config = join(folder, "config.json");
        const conduit = { mode: "socks5", socks5: { listen: "127.0.0.1:0" } };
        const contexts = { a: { server: server.url, conduit } };
        await Deno.writeTextFile(config, JSON.stringify({ "current-context": "a", contexts }), {
          mode: 0o600,
        });
        await using client = new Client(server, ["-f", web], {
          SVC_SERVER: "",
          SVC_CONFIG: config,
        });
        const [, proxy] = await client.wrote(/^(socks5h:\/\/127\.0\.0\.1:\d+) -> /m);
        assert.equal(await curl("--proxy", proxy, "http://web.svc.internal:8080/"), PAGE);
        client.kill("SIGTERM");
        assert.equal((await client.ended).code, 0, client.all);
        await none(server);
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

e2eTest(
  "deploy --session: a client that is gone is waited for no longer than the grace period",
  NEEDS,
  async (t) => {
    await using server = await startServer({ env: { SVC_SESSION_GRACE: "1s" } });
    const folder = await Deno.makeTempDir({ prefix: "svc-e2e-session-" });
    try {
      await build(server, folder);

      await t.step("kill -9 of the client", async () => {
        await using client = new Client(server, ["app:v1", "--name", "web"]);
        await client.wrote(/^serving$/m);
        client.kill("SIGKILL");
        await client.ended;
        await none(server);
        await server.logged(/a session was not resumed/);
      });

      await t.step("kill -9 of both", async () => {
        await using client = new Client(server, ["app:v1", "--name", "web"]);
        await client.wrote(/^serving$/m);
        await server.kill9();
        client.kill("SIGKILL");
        await client.ended;
        await server.restart();
        await none(server);
        await server.logged(/a session was not resumed/, 2);
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);

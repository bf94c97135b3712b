import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { InstallationSecret } from "../../auth/installation_secret.ts";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { sleep } from "../../base/sleep.ts";
import { Caretaker } from "../../caretaker/caretaker.ts";
import { parseConfig } from "../../caretaker/config.ts";
import { attach } from "../../client/attached/attach.ts";
import { createClient } from "../../client/client.ts";
import type { Roles } from "../../deploy/caretakers.ts";
import type { Attached } from "../../wire/attached/session.ts";
import { connDuplex } from "../../wire/duplex.ts";
import { readAll } from "../../wire/testing.ts";
import { startTestServer } from "../testing.ts";
import { ServerCaretakers } from "./caretakers.ts";
import { CaretakerTokens } from "./tokens.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (data?: Uint8Array) => new TextDecoder().decode(data);
const patience = () => AbortSignal.timeout(60_000);

const WEB = { key: "web-0-aaa", deployment: "web", instance: "web-0" };
const OTHER = { key: "web-1-bbb", deployment: "web", instance: "web-1" };

/** A server whose companions are made by the test. */
async function startServer() {
  const caretakers = new ServerCaretakers({
    tokens: new CaretakerTokens(new InstallationSecret("s".repeat(40))),
    image: "agent:1",
    url: "http://127.0.0.1:1",
  });
  const server = await startTestServer({ deps: { caretakers } });
  return Object.assign(server, { caretakers });
}

type Server = Awaited<ReturnType<typeof startServer>>;

/** Starts a caretaker in this process; `of` what its environment says. */
function startCaretaker(server: Server, env: Record<string, string>, instance?: string) {
  const config = parseConfig(env.SVC_CARETAKER_CONFIG);
  const end = new AbortController();
  const sessions: Attached[] = [];
  const client = createClient({ server: server.base, token: env.SVC_CARETAKER_TOKEN });
  const caretaker = new Caretaker({
    config,
    version: "1.2.3",
    connect: async (takes, signal) => {
      const session = await attach(client, "/caretaker/attach", {
        attempt: "attach",
        query: new URLSearchParams({ instance: instance ?? config.server!.instance }),
        takes,
        signal,
        maxStreams: 64,
      });
      sessions.push(session);
      return session;
    },
    log: silent,
    signal: end.signal,
  });
  const running = caretaker.run();
  running.catch(() => {/* its test asks for it */});
  return {
    caretaker,
    sessions,
    running,
    async [Symbol.asyncDispose]() {
      end.abort();
      await running.catch(() => {/* told by the test */});
    },
  };
}

const FORWARD: Roles = { portForward: {} };

/** Answers each connection with what it got, in capitals. */
function workload() {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serve = async () => {
    for await (const connection of listener) {
      const stream = connDuplex(connection);
      void readAll(stream).then(async (got) => {
        await stream.write(bytes(text(got).toUpperCase()));
        await stream.closeWrite();
        stream.reset();
      });
    }
  };
  serve().catch(() => {/* closed */});
  return { port: listener.addr.port, [Symbol.dispose]: () => listener.close() };
}

async function ask(server: Server, key: string, port: number, words: string): Promise<string> {
  const stream = await server.caretakers.dial(key, port, "tcp", patience());
  await stream.write(bytes(words));
  await stream.closeWrite();
  return text(await readAll(stream));
}

Deno.test("caretakers: a port of the workload through its caretaker, also after the connection was lost", async () => {
  await using server = await startServer();
  using web = workload();
  server.caretakers.expect(WEB);
  const env = server.caretakers.environment(WEB, FORWARD);
  await using caretaker = startCaretaker(server, env);
  await server.caretakers.started(WEB.key, patience());
  while (caretaker.caretaker.status().state !== "ready") await sleep(5, patience());
  assert.deepEqual(caretaker.caretaker.status().roles, ["portForward"]);
  assert.equal(await ask(server, WEB.key, web.port, "hello"), "HELLO");
  await assert.rejects(server.caretakers.dial(WEB.key, 1, "tcp"), {
    code: "upstream_failed",
    message: /Cannot connect to port 1 .*nothing listens there/,
  });
  // Its own port 0 is no port at all.
  await assert.rejects(server.caretakers.dial(WEB.key, 0, "tcp"), { code: "argument_invalid" });
  caretaker.sessions.at(-1)!.drop("the cable");
  assert.equal(await ask(server, WEB.key, web.port, "again"), "AGAIN");
});

Deno.test("caretakers: datagrams through a caretaker", async () => {
  await using server = await startServer();
  server.caretakers.expect(WEB);
  await using _caretaker = startCaretaker(server, server.caretakers.environment(WEB, FORWARD));
  await server.caretakers.started(WEB.key, patience());
  const socket = createSocket("udp4");
  socket.on("message", (data, { port }) => socket.send(`${text(data)}!`, port, "127.0.0.1"));
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  const flow = await server.caretakers.dial(WEB.key, socket.address().port, "udp");
  await flow.write(bytes("one"));
  assert.equal(text(await flow.read()), "one!");
  flow.reset();
  await new Promise<void>((resolve) => void socket.close(() => resolve()));
});

Deno.test("caretakers: a token is good for its own instance, as long as that is there, and once at a time", async () => {
  await using server = await startServer();
  const { caretakers } = server;
  for (const one of [WEB, OTHER]) caretakers.expect(one);
  const env = caretakers.environment(WEB, FORWARD);
  const refused = async (running: Promise<void>, code: string, message: RegExp) =>
    await assert.rejects(running, (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, code);
      assert.match(error.message, message);
      return true;
    });
  // For another instance.
  await refused(startCaretaker(server, env, OTHER.key).running, "denied", /for another instance/);
  // Not made here, and none.
  for (
    const token of [
      "svcc_x.y",
      new CaretakerTokens(new InstallationSecret("t".repeat(40))).mint(WEB.key),
    ]
  ) {
    const forged = { ...env, SVC_CARETAKER_TOKEN: token };
    await refused(startCaretaker(server, forged).running, "unauthorized", /not of this server/);
  }
  const bare = await fetch(`${server.base}/.svc/v1/caretaker/attach?instance=${WEB.key}`);
  assert.equal(bare.status, 401);
  await bare.body?.cancel();
  await using _caretaker = startCaretaker(server, env);
  await caretakers.started(WEB.key, patience());
  // A copy of the token, while its owner is attached.
  const copied = await fetch(`${server.base}/.svc/v1/caretaker/attach?instance=${WEB.key}`, {
    headers: { authorization: `Bearer ${env.SVC_CARETAKER_TOKEN}` },
  });
  assert.equal(copied.status, 409);
  await copied.body?.cancel();
  // The instance is gone.
  caretakers.forget(WEB.key);
  await refused(startCaretaker(server, env).running, "not_found", /no such instance/);
  assert.equal(caretakers.serves(WEB.key), false);
});

Deno.test("caretakers: a role that cannot start fails the companion, and the deploy learns which", async () => {
  await using server = await startServer();
  server.caretakers.expect(WEB);
  const roles = { portForward: {}, agentRelay: { folder: "/proc/nowhere" } };
  await using caretaker = startCaretaker(server, server.caretakers.environment(WEB, roles));
  await assert.rejects(server.caretakers.started(WEB.key, patience()), {
    code: "deploy_failed",
    message: /Cannot deploy web: the role agentRelay of the companion of web-0 did not start/,
  });
  await assert.rejects(caretaker.running);
});

Deno.test("caretakers: what a document asks for is done, or refused by name", () => {
  const config = (document: unknown) => () => {
    new Caretaker({
      config: parseConfig(JSON.stringify(document)),
      version: "1",
      log: silent,
      signal: AbortSignal.abort(),
    });
  };
  const cases: [unknown, RegExp, string?][] = [
    [{ version: 2, roles: { portForward: {} } }, /version: this build reads 1, not 2/],
    [{ version: 1, roles: {} }, /roles: there is none/],
    [{ version: 1, roles: { portForwrad: {} } }, /unknown role "portForwrad".*portForward/],
    [{ version: 1, roles: { toString: {} } }, /unknown role "toString"/],
    [{ version: 1, roles: { portForward: {} } }, /server: the role portForward needs it/],
    [
      { version: 1, roles: { telemetry: {} } },
      /role telemetry: it is not in this build/,
      "not_in_build",
    ],
    [{ version: 1, role: {}, roles: { dns: {} } }, /unknown member "role"/],
    [{ version: 1, server: { url: 1, instance: "a" }, roles: { dns: {} } }, /server.url: expected/],
    [[], /expected an object/],
  ];
  for (const [document, message, code = "config_invalid"] of cases) {
    assert.throws(config(document), { code, message });
  }
});

Deno.test("caretakers: without what companions need the deploy is refused, and the variables are named", () => {
  const ask = (options: { image?: string; url?: string }) => () =>
    new ServerCaretakers(options).requireImage("deploy web");
  assert.throws(ask({}), { message: /needs SVC_AGENT_IMAGE and SVC_ADVERTISE_URL,/ });
  assert.throws(ask({ image: "a" }), { message: /needs SVC_ADVERTISE_URL,/ });
  assert.throws(ask({ url: "a" }), { message: /needs SVC_AGENT_IMAGE,/ });
  assert.equal(ask({ image: "a", url: "b" })(), "a");
});

Deno.test("caretakers: an SSH agent's socket is there for one command", async () => {
  await using server = await startServer();
  const folder = await Deno.makeTempDir({ prefix: "svc-agents-" });
  await Deno.writeTextFile(`${folder}/left`, "");
  server.caretakers.expect(WEB);
  const env = server.caretakers.environment(WEB, { agentRelay: { folder } });
  await using _caretaker = startCaretaker(server, env);
  await server.caretakers.started(WEB.key, patience());
  assert.deepEqual([...Deno.readDirSync(folder)], [], "what a killed caretaker left is gone");
  const path = `${folder}/../${crypto.randomUUID()}.sock`;
  const agent = Deno.listen({ transport: "unix", path });
  const serve = (async () => {
    for await (const connection of agent) {
      const got = new Uint8Array(16);
      const size = await connection.read(got);
      await connection.write(bytes(`agent: ${text(got.subarray(0, size ?? 0))}`));
      connection.close();
    }
  })();
  const connect = async () => connDuplex(await Deno.connect({ transport: "unix", path }));
  {
    await using forwarded = await server.caretakers.forwardAgent(WEB.key, connect, patience());
    assert.ok(forwarded.path.startsWith(`${folder}/`));
    // Who does not know the name cannot find it.
    assert.equal(Deno.statSync(folder).mode! & 0o777, 0o711);
    assert.ok(!(await Deno.readTextFile("/proc/net/unix")).includes(forwarded.path));
    const program = connDuplex(await Deno.connect({ transport: "unix", path: forwarded.path }));
    await program.write(bytes("keys?"));
    assert.equal(text(await readAll(program)), "agent: keys?");
    program.reset();
  }
  assert.deepEqual([...Deno.readDirSync(folder)], []);
  agent.close();
  await serve.catch(() => {/* closed */});
  await Deno.remove(path).catch(() => {/* closing removed it */});
  await Deno.remove(folder, { recursive: true });
});

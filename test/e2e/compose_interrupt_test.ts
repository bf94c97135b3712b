/** An interrupt, once and twice, in every phase of `svc compose up`: it ends soon, and leaves nothing running. */
import assert from "node:assert/strict";
import { eventually } from "../waits.ts";
import { ok, Project } from "./compose_scenarios.ts";
import { baseImage, e2eTest, type Server, startServer } from "./harness.ts";
import { Client } from "./session_client.ts";

const NEEDS = { root: true, commands: ["runc", "conmon", "iptables", "busybox", "skopeo"] };

/** Ends on a TERM at once. */
const SLEEP = `sh -c "trap 'exit 0' TERM; echo begun; while :; do sleep 0.1; done"`;
/** Ends on no TERM. */
const DEAF = `sh -c "trap '' TERM; echo begun; while :; do sleep 0.1; done"`;

/** A registry that takes a request and never answers. */
function silentRegistry(): { host: string; asked: Promise<void> } & AsyncDisposable {
  const asked = Promise.withResolvers<void>();
  const over = Promise.withResolvers<Response>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => {
    asked.resolve();
    return over.promise;
  });
  return {
    host: `127.0.0.1:${server.addr.port}`,
    asked: asked.promise,
    async [Symbol.asyncDispose]() {
      over.resolve(new Response(null, { status: 404 }));
      await server.shutdown();
    },
  };
}

const upOf = (server: Server, { folder }: Project, ...words: string[]) =>
  new Client(server, words, {}, folder, ["compose", "up"]);

e2eTest("compose up: interrupted in every phase", NEEDS, async (t) => {
  await using server = await startServer();
  await baseImage(server, "base:1");
  await using project = await Project.open(server);
  const running = async () =>
    Object.entries(await project.states()).filter(([, state]) =>
      state !== "exited" && state !== "created"
    );

  await t.step("while an image is built", async () => {
    await project.write("FROM base:1\nRUN echo building; sleep 1000\n", "Dockerfile");
    await project.write("name: cut\nservices: { a: { build: . } }\n");
    await using up = upOf(server, project);
    await up.wrote(/RUN echo building/);
    up.kill("SIGINT");
    assert.equal((await up.ended).code, 130);
    assert.deepEqual(await project.states(), {});
  });

  await t.step("while an image is pulled: what was up before is stopped", async () => {
    await using registry = silentRegistry();
    await project.write(`name: cut
services:
  a: { image: base:1, command: ${SLEEP} }
  b: { image: "${registry.host}/x:1", depends_on: [a] }
`);
    await using up = upOf(server, project);
    await registry.asked;
    up.kill("SIGINT");
    assert.equal((await up.ended).code, 130);
    assert.match(up.all, /Container cut-a-1 {2}Stopped/);
    assert.deepEqual(await running(), []);
  });

  await t.step("while another service is waited for; twice: it is killed", async () => {
    await project.write(`name: cut
services:
  a:
    image: base:1
    command: ${DEAF}
    stop_grace_period: 10m
    healthcheck: { test: "false", interval: 1s, retries: 1000 }
  b: { image: base:1, depends_on: { a: { condition: service_healthy } } }
`);
    await using up = upOf(server, project);
    await up.wrote(/Container cut-a-1 {2}Waiting/);
    up.kill("SIGINT");
    await up.wrote(/Container cut-a-1 {2}Stopping/);
    up.kill("SIGINT");
    assert.equal((await up.ended).code, 130);
    assert.deepEqual(await running(), []);
    assert.equal((await project.states())["cut-b-1"], undefined);
  });

  await t.step("attached: once stops, twice kills what does not heed it", async () => {
    await project.write(`name: cut
services:
  a: { image: base:1, command: ${SLEEP} }
  c: { image: base:1, command: ${DEAF}, stop_grace_period: 10m }
`);
    await using up = upOf(server, project, "--remove-orphans");
    await up.wrote(/c-1 {2}\| begun/);
    up.kill("SIGINT");
    await up.wrote(/Container cut-a-1 {2}Stopped/);
    up.kill("SIGINT");
    assert.equal((await up.ended).code, 130);
    assert.deepEqual(await project.states(), { "cut-a-1": "exited", "cut-c-1": "exited" });
  });

  await t.step("up -d heals what is left, down takes it away", async () => {
    ok(await project.run("up", "-d"));
    await eventually("both run", async () => (await running()).length === 2);
    ok(await project.run("down", "-t", "0"));
    assert.deepEqual(await project.states(), {});
  });
});

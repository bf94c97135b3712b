/** `svc deploy --session` against a server whose deployments are in memory. */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { join } from "node:path";
import { type CliOptions, svcFake } from "../../test/fixtures/cli.ts";
import { interruption } from "../base/terminal.ts";
import { STOPPED_MS } from "../server/sessions/session.ts";
import { startSessionServer } from "../server/sessions/testing.ts";
import { STATUS } from "../server/testing.ts";
import { exitCodeOf } from "./deploy_session.ts";

type Server = Awaited<ReturnType<typeof startSessionServer>>;

/** A run of `svc deploy --session` that a test talks to meanwhile. */
class Run {
  readonly interrupt = new AbortController();
  readonly hurry = new AbortController();
  readonly result: ReturnType<typeof svcFake>;
  #shown = "";
  #waiting: (() => void)[] = [];

  constructor(server: Server, args: string[], more: CliOptions = {}) {
    this.result = svcFake(["deploy", "--session", ...args], {
      ...more,
      env: { SVC_SERVER: server.base, ...more.env },
      signal: this.interrupt.signal,
      hurry: this.hurry.signal,
      onWrite: (text) => {
        this.#shown += text;
        for (const tell of this.#waiting.splice(0)) tell();
      },
    });
  }

  /** Resolves once what was written has it. */
  async shown(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.#shown);
      if (found) return found;
      const ended = this.result.then(() =>
        assert.fail(`it ended without ${pattern}: ${this.#shown}`)
      );
      await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), ended]);
    }
  }

  stop(): Promise<Awaited<ReturnType<typeof svcFake>>> {
    this.interrupt.abort(interruption("SIGINT"));
    return this.result;
  }
}

async function withServer(work: (server: Server, folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-session-" });
  try {
    await using server = await startSessionServer(join(folder, "data"));
    server.deployments.lines.push("hello");
    await work(server, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** What an echo at the address says. */
async function ask(address: string, what: string): Promise<string> {
  const [host, port] = address.split(":");
  const socket = connect(Number(port), host);
  socket.end(what);
  return await text(socket);
}

Deno.test("deploy --session: ports and logs are shown until an interrupt, which removes it", () =>
  withServer(async (server) => {
    const run = new Run(server, ["app:v1", "--name", "web", "-p", "8080"]);
    const [, address] = await run.shown(/^(127\.0\.0\.1:\d+) -> web:8080\/tcp$/m);
    await run.shown(/^hello$/m);
    assert.equal(await ask(address, "ping"), "ping");
    const { code, stdout, stderr } = await run.stop();
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^web is deployed; .*\n127\.0\.0\.1:\d+ -> web:8080\/tcp\nhello\n$/);
    assert.match(stderr, /^pulling app:v1$/m);
    assert.match(stderr, /removing web; interrupt again/);
    assert.match(stderr, /^web is removed$/m);
    assert.deepEqual(server.deployments.deleted, ["web"]);
  }));

Deno.test("deploy --session: ends with the deployment's own exit code", () =>
  withServer(async (server) => {
    const { deployments, timers } = server;
    const run = new Run(server, ["app:v1", "--name", "job"]);
    await run.shown(/^hello$/m);
    deployments.lines.push("the last line");
    deployments.set({
      ...STATUS,
      name: "job",
      state: "failed",
      instances: [{ id: "job-0", state: "exited", exitCode: 7, restarts: 0 }],
    });
    // Nobody starts it again.
    await timers.fire(STOPPED_MS);
    const { code, stdout, stderr } = await run.result;
    assert.equal(code, 7, stderr);
    assert.match(stdout, /hello\nthe last line\n$/);
    assert.match(stderr, /^job ended with 7$/m);
    assert.deepEqual(deployments.deleted, ["job"]);
  }));

Deno.test("deploy --session: the exit code of several instances", () => {
  const of = (...codes: (number | undefined)[]) =>
    exitCodeOf({
      instances: codes.map((exitCode) => ({ id: "a", state: "exited", restarts: 0, exitCode })),
    });
  assert.deepEqual([of(3), of(256 + 3), of(undefined), of(0)], [3, 3, 1, 0]);
  assert.deepEqual([of(0, 0), of(0, 4)], [0, 1]);
});

Deno.test("deploy --session: events as JSON, without logs", () =>
  withServer(async (server) => {
    const run = new Run(server, ["app:v1", "--name", "web", "-p", "8080", "--output", "json"]);
    await run.shown(/"endpoint"/);
    const { code, stdout } = await run.stop();
    assert.equal(code, 0);
    const events = stdout.trim().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(events.map(({ type }) => type), [
      ...["session", "progress", "result", "endpoint", "ended"],
    ]);
    assert.deepEqual([events[0].name, events[0].token], ["web", undefined]);
    assert.equal(events[3].endpoint.port, 8080);
  }));

Deno.test("deploy --session: --quiet leaves out the logs alone", () =>
  withServer(async (server) => {
    const run = new Run(server, ["app:v1", "--name", "web", "-q", "-p", "8080"]);
    await run.shown(/-> web:8080/);
    const { code, stdout } = await run.stop();
    assert.equal(code, 0);
    assert.doesNotMatch(stdout, /hello/);
  }));

Deno.test("deploy --session: an interrupt in the middle of the apply ends it, a second one leaves", () =>
  withServer(async (server) => {
    const { deployments } = server;
    const deleting = Promise.withResolvers<void>();
    deployments.onApply = (_spec, signal) =>
      new Promise((_, reject) => signal!.addEventListener("abort", () => reject(signal!.reason)));
    const early = new Run(server, ["app:v1", "--name", "web"]);
    await early.shown(/pulling/);
    assert.equal((await early.stop()).code, 0);
    assert.deepEqual(deployments.deleted, ["web"]);

    deployments.onApply = undefined;
    deployments.onDelete = () => deleting.promise;
    const run = new Run(server, ["app:v1", "--name", "web"]);
    await run.shown(/^hello$/m);
    run.interrupt.abort(interruption("SIGINT"));
    await run.shown(/removing web/);
    run.hurry.abort(interruption("SIGINT"));
    const { code, stderr } = await run.result;
    assert.equal(code, 130, stderr);
    deleting.resolve();
  }));

Deno.test("deploy --session: what goes wrong is one error, and nothing stays", () =>
  withServer(async (server) => {
    const { deployments } = server;
    deployments.statuses.set("old", { ...STATUS, name: "old" });
    const old = await new Run(server, ["app:v1", "--name", "old"]).result;
    assert.equal(old.code, 1);
    assert.match(
      old.stderr,
      /^svc: .*there is a deployment of that name already\n {2}svc rm old first/,
    );
    const busy = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const listen = `127.0.0.1:${busy.addr.port}`;
    await using profile = await profileOf(server, { mode: "socks5", socks5: { listen } });
    const taken = await new Run(server, ["app:v1", "--name", "web"], profile).result;
    busy.close();
    assert.equal(taken.code, 1);
    assert.match(taken.stderr, /Cannot open the SOCKS5 proxy on .*: address in use/);
    assert.deepEqual(deployments.deleted, ["web"]);
    const gone = new Run(server, ["app:v1", "--name", "web"]);
    await gone.shown(/^hello$/m);
    deployments.remove("web");
    const removed = await gone.result;
    assert.equal(removed.code, 1);
    assert.match(removed.stderr, /^web was removed by somebody else$/m);
  }));

Deno.test("deploy --session: a reader of standard output that goes away ends it", () =>
  withServer(async (server) => {
    const { code } = await new Run(server, ["app:v1", "--name", "web"], { brokenAfter: 1 }).result;
    assert.equal(code, 0);
    assert.deepEqual(server.deployments.deleted, ["web"]);
  }));

Deno.test("deploy: flags of sessions need one", async () => {
  for (const flag of ["--conduit=socks5", "--via-server", "--quiet"]) {
    const { code, stderr, requests } = await svcFake(["deploy", "app", flag], {
      handler: () => Response.json({}),
    });
    assert.deepEqual([code, requests], [2, []]);
    assert.match(stderr, new RegExp(`Cannot use ${flag.split("=")[0]}: it is for sessions`));
  }
});

async function profileOf(server: Server, conduit: Record<string, unknown>) {
  const folder = await Deno.makeTempDir();
  const config = join(folder, "config.json");
  const contexts = { a: { server: server.base, conduit } };
  await Deno.writeTextFile(config, JSON.stringify({ "current-context": "a", contexts }), {
    mode: 0o600,
  });
  return {
    env: { SVC_SERVER: "", SVC_CONFIG: config } as Record<string, string>,
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

Deno.test("conduit, conduit.mode, SVC_CONDUIT: flag, variable, profile, default choose what a session opens", () =>
  withServer(async (server) => {
    const socks5 = { listen: "127.0.0.1:0", "service-host-suffix": ".apps" };
    await using profile = await profileOf(server, { mode: "socks5", socks5 });
    await using none = await profileOf(server, { socks5 });
    const forwarded = /^127\.0\.0\.1:\d+ -> web:8080\/tcp$/m;
    const proxy = /^socks5h:\/\/(127\.0\.0\.1:\d+) -> NAME\.apps:PORT$/m;
    const opens = async (
      pattern: RegExp,
      { env }: { env: Record<string, string> },
      more: { args?: string[]; env?: Record<string, string> } = {},
    ) => {
      const args = ["app:v1", "--name", "web", "-p", "8080", ...more.args ?? []];
      const run = new Run(server, args, { env: { ...env, ...more.env } });
      const found = await run.shown(pattern);
      const { code, stdout } = await run.stop();
      assert.equal(code, 0);
      assert.equal([forwarded, proxy].filter((one) => one.test(stdout)).length, 1);
      return found;
    };
    await opens(forwarded, none);
    await opens(proxy, profile);
    await opens(forwarded, profile, { env: { SVC_CONDUIT: "port-forward" } });
    await opens(proxy, none, { env: { SVC_CONDUIT: "socks5" } });
    await opens(forwarded, none, {
      env: { SVC_CONDUIT: "socks5" },
      args: ["--conduit", "port-forward", "--via-server"],
    });
  }));

/** The client's session against servers that say and do what they like. */
import assert from "node:assert/strict";
import { type SessionEvent } from "../api/session.ts";
import { LineReader, writeLine } from "../wire/lines.ts";
import type { Attached } from "../wire/attached/session.ts";
import type { Resume } from "../wire/attached/hello.ts";
import { upgradeAttached } from "../wire/attached/testing.ts";
import type { YamuxStream } from "../wire/yamux/stream.ts";
import { createClient } from "./client.ts";
import { openDeploySession, type SessionWatcher } from "./deploy_session.ts";

interface Talk {
  /** What the caller resumes. */
  resume?: Resume;
  stream: YamuxStream;
  lines: LineReader;
  say(value: unknown): Promise<void>;
  hangUp(): void;
}

/** Each connection is `answer`ed, the first with 0. */
function serve(answer: (talk: Talk, index: number) => Promise<void>) {
  let count = 0;
  const sessions: Attached[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    if (request.headers.get("upgrade") !== "websocket") return new Response(null, { status: 404 });
    const index = count++;
    const { session, hello, response } = upgradeAttached(request, {
      takes: {
        deploy: async (stream) => {
          await answer({
            stream,
            resume: hello.resume,
            lines: new LineReader(stream),
            say: (value) => writeLine(stream, value),
            hangUp: () => session[Symbol.dispose](),
          }, index);
        },
      },
    });
    sessions.push(session);
    return response;
  });
  return {
    client: createClient({ server: `http://127.0.0.1:${server.addr.port}` }),
    connections: () => count,
    async [Symbol.asyncDispose]() {
      for (const session of sessions) session[Symbol.dispose]();
      await server.shutdown();
    },
  };
}

const deployment = {
  name: "web",
  state: "running",
  image: "app",
  ports: [],
  instances: [],
  createdAt: "",
  updatedAt: "",
  warnings: [],
};
const begun: SessionEvent = { type: "session", name: "web", token: "secret", graceMs: 0 };
const result = { type: "result", result: { action: "created", deployment } };

function open(server: ReturnType<typeof serve>, more: Partial<SessionWatcher> = {}) {
  const leaving = new AbortController();
  const session = openDeploySession(server.client, { name: "web", spec: {} }, {
    signal: leaving.signal,
    ...more,
  });
  return { session, leave: () => leaving.abort(new DOMException("left", "AbortError")) };
}

Deno.test("session client: rubbish of a server is one error", async () => {
  const rubbish: unknown[] = [
    null,
    7,
    {},
    { type: 7 },
    { type: "session" },
    { type: "session", name: "web", token: "t", graceMs: "long" },
    { type: "progress" },
    { type: "result", result: null },
    { type: "result", result: { deployment: {} } },
    { type: "exited", deployment: { name: "web" } },
    { type: "error" },
    { type: "error", error: { code: 7 } },
    { type: "progress", message: "x".repeat(5 << 20) },
  ];
  for (const value of rubbish) {
    for (const before of [[], [begun]]) {
      await using server = serve(async ({ say, lines }) => {
        await lines.line();
        for (const event of before) await say(event);
        await say(value);
      });
      const { session } = open(server);
      await assert.rejects(session.closed, { name: "SvcError", code: "upstream_failed" });
      await assert.rejects(session.applied, { code: "upstream_failed" });
      assert.equal(server.connections(), 1, JSON.stringify(value)?.slice(0, 60));
    }
  }
});

Deno.test("session client: events of a newer server are passed over, codes too", async () => {
  await using server = serve(async ({ say, lines }) => {
    await lines.line();
    await say({ type: "constructor" });
    await say({ type: "weather", sunny: true });
    await say(begun);
    await say(result);
    await lines.line();
    await say({ type: "error", error: { code: "of_the_future", detail: "Cannot: new" } });
  });
  const { session } = open(server);
  assert.equal((await session.applied).deployment.name, "web");
  session.end();
  await assert.rejects(session.closed, { code: "upstream_failed", message: "Cannot: new" });
});

Deno.test("session client: a server that hangs up before it has begun is not asked again", async () => {
  await using server = serve(async ({ lines, hangUp }) => {
    await lines.line();
    hangUp();
  });
  await assert.rejects(open(server).session.closed, /lost before it had begun/);
  assert.equal(server.connections(), 1);
});

Deno.test("session client: what was resumed says its end again", async () => {
  const told: unknown[] = [];
  await using server = serve(async ({ resume, say, lines, hangUp }, index) => {
    told.push(resume, await lines.line());
    await say(begun);
    if (index === 0) {
      await say(result);
      await lines.line();
      return hangUp();
    }
    told.push(await lines.line());
    await say({ type: "ended" });
  });
  const { session } = open(server);
  await session.applied;
  session.end();
  assert.equal(await session.closed, "ended");
  assert.deepEqual(told, [
    undefined,
    { type: "open", spec: {} },
    { name: "web", token: "secret" },
    { type: "resume" },
    { type: "end" },
  ]);
});

Deno.test("session client: gone while it was to end is an end, and else an error", async () => {
  const gone = { type: "error", error: { code: "not_found", detail: "Cannot resume" } };
  for (const wanted of [true, false]) {
    await using server = serve(async ({ say, lines, hangUp }, index) => {
      await lines.line();
      if (index > 0) return await say(gone);
      await say(begun);
      await say(result);
      if (wanted) await lines.line();
      hangUp();
    });
    const { session } = open(server);
    if (!wanted) {
      await assert.rejects(session.closed, { code: "not_found" });
      continue;
    }
    await session.applied;
    session.end();
    assert.equal(await session.closed, "ended");
  }
});

Deno.test("session client: a server that stays away is given up; who leaves waits for nothing", async () => {
  for (const leaves of [true, false]) {
    const lost = Promise.withResolvers<void>();
    const stop = Promise.withResolvers<void>();
    const server = serve(async ({ say, lines, hangUp }) => {
      await lines.line();
      await say(begun);
      await say(result);
      await stop.promise;
      hangUp();
    });
    const { session, leave } = open(server, {
      onLost: lost.resolve,
      restartMs: leaves ? 600_000 : 0,
    });
    await session.applied;
    const ended = server[Symbol.asyncDispose]();
    stop.resolve();
    await lost.promise;
    if (leaves) leave();
    await assert.rejects(session.closed, leaves ? { name: "AbortError" } : { name: "SvcError" });
    await ended;
  }
});

Deno.test("session client: what ends by the removal that was asked for has not exited", async () => {
  await using server = serve(async ({ lines, say }) => {
    await lines.line();
    await say(begun);
    await say(result);
    await lines.line(); // the request to end
    await say({ type: "exited", deployment: { ...deployment, state: "exited" } });
    await say({ type: "ended" });
  });
  const { session } = open(server);
  await session.applied;
  session.end();
  const exited = session.exited.then(() => "exited");
  assert.equal(await Promise.race([exited, session.closed]), "ended");
});

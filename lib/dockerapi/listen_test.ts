import assert from "node:assert/strict";
import { connect } from "node:net";
import { join } from "node:path";
import { SvcError } from "../base/errors.ts";
import type { DockerApi } from "./api.ts";
import { listen, type ListenOptions } from "./listen.ts";
import type { ApiRoute } from "./route.ts";
import { Router } from "./router.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

/** Resolves once the head of the next request to /echo has come. */
let headCame = Promise.withResolvers<void>();

const ROUTES: ApiRoute[] = [
  { method: "GET", path: "/hello", handler: () => Promise.resolve({ json: { hello: true } }) },
  {
    method: "POST",
    path: "/refuses",
    handler: () => Promise.reject(new SvcError("conflict", "Cannot: no", { help: "" })),
  },
  {
    method: "POST",
    path: "/echo",
    async handler(call) {
      headCame.resolve();
      const body = await call.json("Login");
      const connection = await call.take();
      await connection.write(bytes(body.username ?? ""));
      for (let part = await connection.read(); part; part = await connection.read()) {
        await connection.write(part);
      }
      await connection.closeWrite();
    },
  },
  {
    method: "GET",
    path: "/filters",
    handler: (call) => Promise.resolve({ json: Object.fromEntries(call.filters()) }),
  },
];

async function serving(
  run: (path: string, client: Deno.HttpClient) => Promise<void>,
  more: Partial<ListenOptions> = {},
) {
  const folder = await Deno.makeTempDir({ prefix: "svc-dockerapi-" });
  const path = join(folder, "sub", "docker.sock");
  const api = { warn: () => {} } as unknown as DockerApi;
  const { signal } = new AbortController();
  const options = { path, api, signal, router: new Router(ROUTES), ...more };
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  try {
    await using _listening = await listen(options);
    await run(path, client);
  } finally {
    client.close();
    await Deno.remove(folder, { recursive: true });
  }
}

/** All that comes back for what is sent, which ends with the last part. `late`: what is waited for after the first. */
async function talk(
  path: string,
  [first, ...rest]: readonly string[],
  late?: Promise<void>,
): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let text = "";
  const socket = connect({ path, allowHalfOpen: true });
  socket.on("error", reject);
  socket.on("close", () => resolve(text));
  socket.on("data", (data) => text += data);
  socket.on("end", () => socket.end());
  socket.write(first);
  await late;
  for (const part of rest) socket.write(part);
  socket.end();
  return await promise;
}

Deno.test("docker API: the socket is this user's, answers, and a refusal is docker's", () =>
  serving(async (path, client) => {
    assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
    const hello = await fetch("http://docker/v1.41/hello", { client });
    assert.match(hello.headers.get("server")!, /^svc\//);
    assert.deepEqual(await hello.json(), { hello: true });
    const filters = encodeURIComponent('{"label":{"a":true},"status":["b"]}');
    const read = await fetch(`http://docker/filters?filters=${filters}`, { client });
    assert.deepEqual(await read.json(), { label: ["a"], status: ["b"] });
    for (const text of ["[1", "[]", "5", '{"label":"a"}', '{"label":[5]}']) {
      const wrong = await fetch(`http://docker/filters?filters=${text}`, { client });
      assert.equal(wrong.status, 400, text);
      await wrong.body?.cancel();
    }
    const none = await fetch("http://docker/filters?filters=null", { client });
    assert.deepEqual(await none.json(), {});
    const typed = { method: "POST", body: '{"username":5}', client };
    const unread = await fetch("http://docker/echo", typed);
    assert.equal(unread.status, 400);
    assert.deepEqual(await unread.json(), {
      message: "invalid JSON: username: expected string, received number",
    });
    // More than the connection holds: who still sends reads the refusal all the same.
    const body = new Uint8Array(8 << 20);
    const refused = await fetch("http://docker/refuses", { method: "POST", body, client });
    assert.equal(refused.status, 409);
    assert.deepEqual(await refused.json(), { message: "Cannot: no" });
  }));

Deno.test("docker API: a connection is taken over behind the request's body", () =>
  serving(async (path) => {
    const head = (more: string) =>
      `POST /echo HTTP/1.1\r\nHost: d\r\n${more}Content-Length: 17\r\n\r\n{"username":"hi"}`;
    const upgrade = "Connection: Upgrade\r\nUpgrade: tcp\r\n";
    const answer = await talk(path, [head(upgrade), "typed"]);
    assert.match(answer, /^HTTP\/1\.1 101 UPGRADED\r\n/);
    assert.match(answer, /\r\n\r\nhityped$/);
    // A client that sends its body by itself, in parts: docker-py does.
    const whole = head(upgrade);
    for (const cut of [whole.length - 17, whole.length - 5]) {
      headCame = Promise.withResolvers();
      const parts = [whole.slice(0, cut), whole.slice(cut), "typed"];
      assert.match(await talk(path, parts, headCame.promise), /\r\n\r\nhityped$/, `${cut}`);
    }
    const endless = whole.replace("Content-Length: 17", "Transfer-Encoding: chunked");
    assert.match(await talk(path, [endless.slice(0, -17)]), /^HTTP\/1\.1 400 [^]*has no end/);
    const refused = await talk(path, [`POST /refuses HTTP/1.1\r\nHost: d\r\n${upgrade}\r\n`]);
    assert.match(refused, /^HTTP\/1\.1 409 [^]*"Cannot: no"/);
  }));

Deno.test("docker API: a target that is no address is not found, and ends nothing", () =>
  serving(async (path) => {
    for (const target of ["//", "http://[", "*"]) {
      const answer = await talk(path, [`GET ${target} HTTP/1.1\r\nHost: d\r\n\r\n`]);
      assert.match(answer, /^HTTP\/1\.1 404 /, target);
    }
  }));

const strangers: [string, () => number][] = [
  ["another user", () => 12345],
  ["a user who cannot be told", () => {
    throw new Error("the socket has no peer");
  }],
];

for (const [who, uidOf] of strangers) {
  Deno.test(`docker API: ${who} is not spoken to`, () =>
    serving(async (path) => {
      const request = "GET /hello HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n";
      assert.equal(await talk(path, [request]).catch(() => ""), "");
    }, { uidOf }));
}

Deno.test("docker API: a dead socket is replaced; what is in use, or no socket, is not", async () => {
  await serving(async (path) => {
    const again = {
      path,
      api: {} as DockerApi,
      router: new Router([]),
      signal: AbortSignal.any([]),
    };
    await assert.rejects(listen(again), { code: "address_in_use", message: /another process/ });
    const file = `${path}.file`;
    await Deno.writeTextFile(file, "kept");
    await assert.rejects(listen({ ...again, path: file }), { message: /no socket/ });
    assert.equal(await Deno.readTextFile(file), "kept");
    const dead = `${path}.dead`;
    // As it is left by a process that was killed.
    await new Deno.Command("python3", {
      args: ["-c", `import socket; socket.socket(socket.AF_UNIX).bind(${JSON.stringify(dead)})`],
    }).output();
    await using _listening = await listen({ ...again, path: dead });
    assert.ok((await Deno.stat(dead)).isSocket);
  });
});

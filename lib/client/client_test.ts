import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { createClient, parseServer } from "./client.ts";
import { readLines } from "./lines.ts";

const stream = (...chunks: (string | Uint8Array)[]) =>
  ReadableStream.from(chunks.map((c) => typeof c === "string" ? new TextEncoder().encode(c) : c));

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

function serve(handler: (request: Request) => Response | Promise<Response>) {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);
  const client = (signal?: AbortSignal) =>
    createClient({ server: `http://127.0.0.1:${server.addr.port}/`, signal });
  return { client, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("lines: split anywhere, the last without a newline", async () => {
  const euro = new TextEncoder().encode("€\n");
  assert.deepEqual(
    await collect(
      readLines(stream("a\nb", "c", "\n\n", euro.subarray(0, 2), euro.subarray(2), "end")),
    ),
    ["a", "bc", "", "€", "end"],
  );
  assert.deepEqual(await collect(readLines(stream())), []);
  assert.deepEqual(await collect(readLines(stream("a\n"))), ["a"]);
});

Deno.test("server addresses: with and without scheme, path and slash", () => {
  assert.equal(parseServer("localhost:5000").href, "http://localhost:5000/");
  assert.equal(parseServer("10.0.0.1").href, "http://10.0.0.1/");
  assert.equal(parseServer("https://h/base").href, "https://h/base");
  for (const bad of ["", "ftp://h", "http://", "http://h/?q", "http://h:99999", "a b"]) {
    assert.throws(
      () => parseServer(bad),
      (e) => e instanceof SvcError && e.code === "config_invalid",
      bad,
    );
  }
});

Deno.test("a server behind a path prefix", async () => {
  let path = "";
  await using server = serve((request) => {
    path = new URL(request.url).pathname;
    return Response.json({ ok: true });
  });
  const client = createClient({ server: `${server.client().server}/base/` });
  await client.json("GET /openapi.json");
  assert.equal(path, "/base/.svc/v1/openapi.json");
});

Deno.test("a body that fails tells its own story, not the connection's", async () => {
  await using server = serve(async (request) => {
    for await (const _ of request.body ?? []) { /* until it breaks */ }
    return Response.json({});
  });
  const broken = new SvcError("context_invalid", "Cannot send big: it became shorter");
  const body = ReadableStream.from((async function* () {
    yield new Uint8Array(1024);
    throw broken;
  })());
  const sent = { body, contentType: "application/x-tar" } as const;
  await assert.rejects(
    server.client().json("POST /build/inputs", sent),
    (e) => e === broken,
  );
});

Deno.test("events: a cut stream and a line that is not JSON are errors", async () => {
  for (const rest of ['b\r\n{"type":1}\n\r\n', 'd\r\n{"type":1}\n{"\r\n0\r\n\r\n']) {
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const answered = (async () => {
      using connection = await listener.accept();
      await connection.read(new Uint8Array(4096));
      const head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
      await connection.write(new TextEncoder().encode(head + rest));
    })();
    const client = createClient({ server: `127.0.0.1:${listener.addr.port}` });
    const seen: unknown[] = [];
    await assert.rejects(async () => {
      for await (const event of client.events("GET /activity")) seen.push(event);
    }, (e) => e instanceof SvcError && e.code === "upstream_failed");
    assert.deepEqual(seen, [{ type: 1 }]);
    await answered;
  }
});

Deno.test("an aborted signal ends a call with its own reason", async () => {
  const { promise: held, resolve: letGo } = Promise.withResolvers<Response>();
  await using server = serve(() => held);
  const reason = new DOMException("enough", "AbortError");
  const controller = new AbortController();
  setTimeout(() => controller.abort(reason), 10);
  await assert.rejects(server.client(controller.signal).json("GET /info"), (e) => e === reason);
  letGo(Response.json({}));
});

Deno.test("a credential that has ended is replaced once, for calls and for sockets", async () => {
  const asked: string[] = [];
  await using server = serve((request) => {
    const bearer = request.headers.get("authorization") ?? "";
    asked.push(bearer);
    if (bearer !== "Bearer new") {
      return Response.json({ code: "unauthorized", detail: "Cannot: no" }, { status: 401 });
    }
    if (request.headers.get("upgrade") !== "websocket") return Response.json({ ok: true });
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onopen = () => socket.close();
    return response;
  });
  const client = (next: string) => {
    let token = "old";
    return createClient({
      server: server.client().server,
      credential: {
        token: () => Promise.resolve(token),
        renew: () => {
          const other = token !== next;
          token = next;
          return Promise.resolve(other);
        },
      },
    });
  };
  assert.deepEqual(await client("new").json("GET /openapi.json"), { ok: true });
  assert.deepEqual(asked.splice(0), ["Bearer old", "Bearer new"]);
  const closed = Promise.withResolvers<void>();
  const handlers = { onMessage: () => {}, onClose: () => closed.resolve() };
  await client("new").socket("/session", undefined, handlers);
  await closed.promise;
  await assert.rejects(client("worse").json("GET /info"), /Cannot: no/);
  await assert.rejects(client("worse").socket("/session", undefined, handlers), /Cannot: no/);
});

Deno.test("a server that comes back between a refused upgrade and the question why is asked again", async () => {
  const asked: string[] = [];
  await using server = serve((request) => {
    const upgrade = request.headers.get("upgrade") === "websocket";
    asked.push(upgrade ? "upgrade" : "plain GET");
    if (asked.length === 1) return new Response("not yet", { status: 503 });
    if (!upgrade) {
      const detail = "Cannot attach: the request is not a WebSocket";
      return Response.json({ code: "argument_invalid", detail }, { status: 400 });
    }
    if (new URL(request.url).searchParams.has("wrong")) return new Response("no", { status: 400 });
    const { socket, response } = Deno.upgradeWebSocket(request);
    socket.onopen = () => socket.close();
    return response;
  });
  const closed = Promise.withResolvers<void>();
  const handlers = { onMessage: () => {}, onClose: () => closed.resolve() };
  await server.client().socket("/session", undefined, handlers);
  await closed.promise;
  assert.deepEqual(asked.splice(0), ["upgrade", "plain GET", "upgrade"]);
  const wrong = new URLSearchParams({ wrong: "1" });
  await assert.rejects(server.client().socket("/session", wrong, handlers), {
    code: "argument_invalid",
  });
  assert.equal(asked.length, 4);
});

Deno.test("an interrupt that meets a refused upgrade is the interrupt", async () => {
  const reason = new Error("interrupted");
  for (const last of ["upgrade", "plain GET"]) {
    const controller = new AbortController();
    await using server = serve((request) => {
      const upgrade = request.headers.get("upgrade") === "websocket";
      if (upgrade === (last === "upgrade")) controller.abort(reason);
      return new Response("no WebSocket here");
    });
    const handlers = { onMessage: () => {}, onClose: () => {} };
    await assert.rejects(
      server.client(controller.signal).socket("/session", undefined, handlers),
      (error) => error === reason,
      last,
    );
  }
});

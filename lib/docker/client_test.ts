import { deepStrictEqual, ok, rejects, strictEqual } from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { compareVersions, DockerClient } from "./client.ts";
import { dockerEndpoint } from "./endpoint.ts";
import { daemonStatus, isGone, refusalOf } from "./errors.ts";
import { watchEvents } from "./events.ts";
import { readProgress } from "./messages.ts";
import { scriptedDaemon } from "./testing.ts";

const attempted = "Cannot try";
const withCode = (code: string, words?: RegExp) => (error: unknown) => {
  ok(error instanceof SvcError, String(error));
  strictEqual(error.code, code, error.message);
  if (words) ok(words.test(error.message), error.message);
  return true;
};

Deno.test("the version of the API is the newest that both know", async () => {
  strictEqual(compareVersions("1.9", "1.41") < 0, true);
  for (const [theirs, used] of [["1.41", "1.41"], ["1.44", "1.44"], ["1.99", "1.51"]]) {
    await using daemon = await scriptedDaemon((call) => call.json([]), {
      version: { ApiVersion: theirs, MinAPIVersion: "1.24" },
    });
    await daemon.client.json({ path: "/containers/json", attempted });
    await daemon.client.json({ path: "/images/json", attempted });
    // Asked once.
    deepStrictEqual(daemon.lines, [
      "GET /version",
      `GET /v${used}/containers/json`,
      `GET /v${used}/images/json`,
    ]);
  }
});

Deno.test("a daemon whose API svc does not have is refused", async () => {
  for (
    const version of [{ ApiVersion: "1.40", MinAPIVersion: "1.12" }, {
      ApiVersion: "1.99",
      MinAPIVersion: "1.90",
    }]
  ) {
    await using daemon = await scriptedDaemon((call) => call.json([]), { version });
    await rejects(daemon.client.daemon(), withCode("unsupported", /svc has 1\.41 to/));
  }
  await using daemon = await scriptedDaemon((call) => call.json([]), { version: { hello: 1 } });
  await rejects(daemon.client.daemon(), withCode("upstream_failed", /without a version/));
});

Deno.test("svc's own API is no engine: a server does not deploy to itself", async () => {
  await using daemon = await scriptedDaemon((call) => call.json([]), {
    version: { ApiVersion: "1.51", MinAPIVersion: "1.24", Components: [{ Name: "svc" }] },
  });
  const asked = daemon.client.json({ path: "/containers/json", attempted });
  await rejects(asked, withCode("config_invalid", /is svc itself/));
});

Deno.test("the daemon's errors keep its words and get a code", async () => {
  const codes = {
    400: "argument_invalid",
    404: "not_found",
    409: "conflict",
    500: "upstream_failed",
  };
  for (const [status, code] of Object.entries(codes)) {
    await using daemon = await scriptedDaemon((call) =>
      call.json({ message: "no such thing" }, Number(status))
    );
    await rejects(daemon.client.run({ path: "/x", attempted }), (error) => {
      strictEqual(daemonStatus(error), Number(status));
      return withCode(code, /^Cannot try: no such thing$/)(error);
    });
  }
});

Deno.test("podman's cause of an error gives its code", async () => {
  const cause = "container state improper";
  await using daemon = await scriptedDaemon((call) =>
    call.json({ cause, message: `can only run on running containers: ${cause}` }, 500)
  );
  await rejects(daemon.client.run({ path: "/x", attempted }), withCode("conflict", /can only run/));
});

Deno.test("queries leave out what is absent and send lists as JSON", async () => {
  await using daemon = await scriptedDaemon((call) => call.json({ got: call.line }));
  const { got } = await daemon.client.json<{ got: string }>({
    path: "/x",
    query: { all: true, none: undefined, off: false, filters: { label: ["a=b"] }, n: 0 },
    attempted,
  });
  const query = new URLSearchParams(got.split("?")[1]);
  deepStrictEqual([...query.keys()], ["all", "filters", "n"]);
  deepStrictEqual(JSON.parse(query.get("filters")!), { label: ["a=b"] });
});

const HEAD = "HTTP/1.1 200 OK\r\n";
const RUBBISH: Record<string, [answer: string, code: string]> = {
  "nothing": ["", "unavailable"],
  "no HTTP": ["SSH-2.0-OpenSSH_9.2\r\n", "unavailable"],
  "a page": [`${HEAD}content-length: 6\r\n\r\n<html>`, "upstream_failed"],
  "a redirect": ["HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", "upstream_failed"],
  "a cut-off length": [`${HEAD}content-length: 100\r\n\r\n{"a":`, "unavailable"],
  "cut-off chunks": [`${HEAD}transfer-encoding: chunked\r\n\r\n5\r\n{"a":`, "unavailable"],
};

for (const [name, [answer, code]] of Object.entries(RUBBISH)) {
  Deno.test(`an answer of ${name} is a clear error`, async () => {
    await using daemon = await scriptedDaemon((call) => call.write(answer));
    await rejects(daemon.client.json({ path: "/x", attempted }), withCode(code, /docker\.sock/));
  });
}

Deno.test("an error that is no JSON is told with its status", async () => {
  await using daemon = await scriptedDaemon((call) =>
    call.write("HTTP/1.1 502 Bad\r\ncontent-length: 8\r\n\r\nno route")
  );
  await rejects(
    daemon.client.run({ path: "/x", attempted }),
    withCode("upstream_failed", /502 no route/),
  );
});

Deno.test("a daemon that is silent is left; a stream may be silent", async () => {
  await using daemon = await scriptedDaemon(async (call) => {
    if (call.line.endsWith("/quiet")) await call.read();
    else {
      await call.write(`${HEAD}content-length: 2\r\n\r\n`);
      // Longer than the limit for a head, which a busy machine keeps.
      await new Promise((resolve) => setTimeout(resolve, 2500));
      await call.write("{}");
    }
  }, { headMs: 2000 });
  await rejects(daemon.client.run({ path: "/quiet", attempted }), withCode("timeout"));
  deepStrictEqual(await daemon.client.json({ path: "/slow", attempted }), {});
});

Deno.test("an absent daemon is told with what to do, and found when it is there", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/docker.sock`;
  const endpoint = dockerEndpoint({ host: `unix://${path}` });
  await using client = new DockerClient({ endpoint });
  await rejects(client.run({ path: "/x", attempted }), (error) => {
    ok(isGone(error));
    return withCode("unavailable", /no such socket/)(error);
  });
  const server = Deno.serve(
    { path, onListen() {} },
    () => Response.json({ ApiVersion: "1.41" }),
  );
  strictEqual((await client.daemon()).api, "1.41");
  await server.shutdown();
  await Deno.remove(folder, { recursive: true });
});

Deno.test("a signal ends a call, its reason is told", async () => {
  await using daemon = await scriptedDaemon(async (call) => {
    await call.write(`${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n`);
    await call.read();
  });
  const abort = new AbortController();
  const reason = new Error("enough");
  const body = await daemon.client.stream({ path: "/x", attempted, signal: abort.signal });
  const reader = body.getReader();
  strictEqual((await reader.read()).value?.length, 2);
  abort.abort(reason);
  await rejects(reader.read(), reason);
  await rejects(
    daemon.client.run({ path: "/x", attempted, signal: abort.signal }),
    (error) => error === reason,
  );
});

Deno.test("a cancelled body closes its connection", async () => {
  const closed = Promise.withResolvers<void>();
  await using daemon = await scriptedDaemon(async (call) => {
    await call.write(`${HEAD}transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n`);
    while (await call.read()) { /* until the caller closes */ }
    closed.resolve();
  });
  const body = await daemon.client.stream({ path: "/x", attempted });
  await body.cancel();
  await closed.promise;
});

Deno.test("a body is sent as a stream, and left where the daemon answers before its end", async () => {
  const chunk = new Uint8Array(64 * 1024).fill(7);
  let size = 0;
  await using daemon = await scriptedDaemon(async (call) => {
    if (call.line.startsWith("PUT")) {
      await call.json({ message: "no room" }, 409);
      // As Go's server: it goes on reading for a while, or the answer would be lost.
      while (await call.read()) { /* until the caller closes */ }
      return;
    }
    for (;;) {
      const bytes = await call.read();
      size += bytes?.length ?? 0;
      if (!bytes || new TextDecoder("latin1").decode(bytes.slice(-5)) === "0\r\n\r\n") break;
    }
    await call.json({});
  });
  let left = 100;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => left-- > 0 ? controller.enqueue(chunk) : controller.close(),
  });
  await daemon.client.json({ path: "/x", body, attempted });
  ok(size > 100 * chunk.length, `${size}`);
  const cancelled = Promise.withResolvers<void>();
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(chunk),
    cancel: () => cancelled.resolve(),
  });
  await rejects(
    daemon.client.run({ method: "PUT", path: "/x", body: endless, attempted }),
    withCode("conflict", /no room/),
  );
  await cancelled.promise;
});

Deno.test("a connection that is handed over keeps its first bytes and ends by halves", async () => {
  await using daemon = await scriptedDaemon(async (call) => {
    strictEqual(call.headers.get("upgrade"), "tcp");
    if (call.line.includes("missing")) return await call.json({ message: "no such exec" }, 404);
    await call.write(
      "HTTP/1.1 101 UPGRADED\r\nconnection: Upgrade\r\nupgrade: tcp\r\n\r\nfirst",
    );
    let got = "";
    for (let bytes; (bytes = await call.read());) got += new TextDecoder().decode(bytes);
    await call.write(`after the end of ${got}`);
  });
  const duplex = await daemon.client.upgrade({ path: "/exec/1/start", json: {}, attempted });
  await duplex.write(new TextEncoder().encode("input"));
  await duplex.closeWrite();
  let text = "";
  for (let bytes; (bytes = await duplex.read());) text += new TextDecoder().decode(bytes);
  strictEqual(text, "firstafter the end of input");
  duplex.reset();
  await rejects(
    daemon.client.upgrade({ path: "/exec/missing/start", json: {}, attempted }),
    withCode("not_found", /no such exec/),
  );
});

Deno.test("events begin by the daemon's clock, and a lost daemon is told", async () => {
  const event = { Type: "container", Action: "start", Actor: { ID: "1", Attributes: {} }, time: 1 };
  await using daemon = await scriptedDaemon(async (call) => {
    if (call.line.endsWith("/info")) {
      return await call.json({ SystemTime: "2030-01-01T01:00:00.5+01:00" });
    }
    await call.write(`${HEAD}\r\n${JSON.stringify(event)}\n`);
  });
  const abort = new AbortController();
  const events = await watchEvents(daemon.client, {
    filters: { type: ["container"] },
    signal: abort.signal,
  });
  const seen: unknown[] = [];
  await rejects(
    (async () => {
      for await (const one of events) seen.push(one);
    })(),
    withCode("unavailable", /went away/),
  );
  deepStrictEqual(seen, [event]);
  ok(
    daemon.lines.at(-1)!.includes(`since=${Date.UTC(2030, 0) / 1000}.500000000`),
    daemon.lines.at(-1),
  );
});

Deno.test("progress tells the daemon's error with its words", async () => {
  const body = ReadableStream.from([
    new TextEncoder().encode('{"status":"Pulling"}\n{"errorDetail":{"mess'),
    new TextEncoder().encode('age":"no such image"},"error":"x"}\n'),
  ]);
  const seen: unknown[] = [];
  await rejects(
    readProgress(body, attempted, (message) => seen.push(message.status)),
    withCode("upstream_failed", /^Cannot try: no such image$/),
  );
  deepStrictEqual(seen, ["Pulling"]);
});

Deno.test("a daemon's full disk is told as such, in an answer and in the progress of a load", async () => {
  const words = "write /layer.tar: no space left on device";
  const full = { code: "storage_full", help: "free space on the daemon's volume" };
  const { code, help, message } = refusalOf("Cannot create web", 500, words);
  deepStrictEqual([{ code, help }, message], [full, `Cannot create web: ${words}`]);
  const body = new Blob([JSON.stringify({ error: words })]).stream();
  await rejects(readProgress(body, "Cannot load base"), full);
});

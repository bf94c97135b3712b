/** Callers of another time, and callers that say nothing, at a route of the server's. */
import assert from "node:assert/strict";
import { HELLO_HEADER, readHello, writeHello } from "../../wire/attached/hello.ts";
import { duplexPair } from "../../wire/testing.ts";
import { startTestServer } from "../testing.ts";

const PATH = "/.svc/v1/deployments/web/forward?port=80";

/** A server whose deployment `web` can be dialled; how many of those connections are still open. */
async function forwardServer() {
  const open = { count: 0 };
  const server = await startTestServer({
    backend: {
      dial: () => {
        const [, ours] = duplexPair();
        open.count++;
        let closed = false;
        const reset = () => {
          if (!closed) open.count--;
          closed = true;
          ours.reset();
        };
        return Promise.resolve({ ...ours, reset });
      },
    },
  });
  return { server, open };
}

/** The answer to an upgrade that may be refused. */
async function upgrade(base: string, hello?: string): Promise<{ status: number; body: string }> {
  const { hostname, port } = new URL(base);
  using conn = await Deno.connect({ hostname, port: Number(port) });
  const head = [
    `GET ${PATH} HTTP/1.1`,
    ...[`Host: ${hostname}:${port}`, "Connection: Upgrade", "Upgrade: websocket"],
    ...["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="],
    ...hello === undefined ? [] : [`${HELLO_HEADER}: ${hello}`],
  ];
  await conn.write(new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\n`));
  let text = "";
  const bytes = new Uint8Array(4096);
  while (!/\r\n\r\n/.test(text) || text.includes("problem+json") && !text.includes("}")) {
    const size = await conn.read(bytes);
    if (size === null) break;
    text += new TextDecoder().decode(bytes.subarray(0, size));
  }
  return { status: Number(text.split(" ")[1]), body: text.slice(text.indexOf("\r\n\r\n") + 4) };
}

Deno.test("accept: a client of another time is refused in words, before the upgrade", async () => {
  const { server, open } = await forwardServer();
  await using _ = server;
  const cases: [string | undefined, RegExp][] = [
    [
      '{"oldest":2,"newest":3,"takes":["port"]}',
      /speaks versions 2 to 3 of attached sessions, not version 1/,
    ],
    ['{"oldest":0,"newest":0,"takes":["port"]}', /the client is the older one/],
    [undefined, /the client does not speak attached sessions/],
    ["rubbish", /the client does not speak attached sessions/],
  ];
  for (const [hello, why] of cases) {
    const { status, body } = await upgrade(server.base, hello);
    assert.equal(status, 501, body);
    assert.match(body, why);
    assert.match(body, /"code":"unsupported"/);
  }
  // Who asks why, without an upgrade, is told the same.
  const again = await fetch(server.base + PATH, { headers: { [HELLO_HEADER]: cases[0][0]! } });
  assert.equal(again.status, 501);
  assert.match((await again.json()).detail, cases[0][1]);
  const plain = await fetch(server.base + PATH, { headers: { [HELLO_HEADER]: writeHello([]) } });
  assert.equal(plain.status, 400);
  assert.match((await plain.json()).detail, /the request is not a WebSocket/);
  assert.equal(open.count, 0, "nothing stays dialled");
});

Deno.test("accept: a newer client that still speaks the version is let in, and told it", async () => {
  const { server } = await forwardServer();
  await using _ = server;
  const headers = { [HELLO_HEADER]: '{"oldest":1,"newest":9,"takes":["port","teleport"]}' };
  const socket = new WebSocket(server.base.replace("http", "ws") + PATH, { headers });
  socket.binaryType = "arraybuffer";
  const messages: (string | ArrayBuffer)[] = [];
  const two = Promise.withResolvers<void>();
  socket.onmessage = ({ data }) => {
    messages.push(data);
    if (messages.length === 2) two.resolve();
  };
  await two.promise;
  assert.equal(readHello(messages[0] as string)?.newest, 1);
  assert.match(new TextDecoder().decode(messages[1] as ArrayBuffer), /\{"kind":"port"\}\n$/);
  const closed = new Promise((resolve) => socket.onclose = resolve);
  socket.close();
  await closed;
});

Deno.test("accept: a client that does not take what the route opens is told so", async () => {
  const { server, open } = await forwardServer();
  await using _ = server;
  const headers = { [HELLO_HEADER]: writeHello([]) };
  const socket = new WebSocket(server.base.replace("http", "ws") + PATH, { headers });
  const messages: string[] = [];
  socket.onmessage = ({ data }) => messages.push(data);
  const { code } = await new Promise<CloseEvent>((resolve) => socket.onclose = resolve);
  assert.equal(code, 4000);
  assert.deepEqual(JSON.parse(messages.at(-1)!).error.code, "unsupported");
  assert.equal(open.count, 0);
});

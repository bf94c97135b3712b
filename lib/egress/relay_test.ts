import assert from "node:assert/strict";
import fc from "fast-check";
import { SvcError } from "../base/errors.ts";
import { connDuplex, type Duplex } from "../wire/duplex.ts";
import { duplexPair } from "../wire/testing.ts";
import { egressPolicy } from "./policy.ts";
import { EgressRelay, type EgressRelayOptions, proxyListener } from "./relay.ts";

const LATIN = new TextDecoder("latin1");
const bytesOf = (text: string) => Uint8Array.from(text, (letter) => letter.charCodeAt(0));

async function rest(stream: Duplex): Promise<string> {
  let text = "";
  for (let bytes = await stream.read(); bytes; bytes = await stream.read()) {
    text += LATIN.decode(bytes);
  }
  return text;
}

/** A relay whose dialled connections answer "done" and keep what they were sent. */
function relayed(options: Partial<EgressRelayOptions> = {}) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const dialled: { to: string; sent: Promise<string> }[] = [];
  const relay = new EgressRelay({
    listener: proxyListener(listener),
    policy: egressPolicy({
      rules: [{ pattern: "*.ok", route: "cluster" }, { pattern: "far", route: "gateway" }],
      default: "deny",
    }),
    dialers: {
      cluster: ({ host, port }) => {
        const [ours, theirs] = duplexPair();
        const answered = (async () => {
          const sent = await rest(theirs);
          await theirs.write(bytesOf("done"));
          await theirs.closeWrite();
          return sent;
        })();
        answered.catch(() => {});
        dialled.push({ to: `${host}:${port}`, sent: answered });
        return Promise.resolve(ours);
      },
    },
    ...options,
  });
  const { port } = listener.addr;
  /** What comes back to a client that says so much and no more. */
  const ask = async (text: string) => {
    const conn = await Deno.connect({ hostname: "127.0.0.1", port });
    const stream = connDuplex(conn);
    try {
      await stream.write(bytesOf(text));
      await stream.closeWrite();
      return await rest(stream);
    } catch {
      return "reset";
    } finally {
      stream.reset();
    }
  };
  return { relay, dialled, ask, port, [Symbol.dispose]: () => relay[Symbol.dispose]() };
}

Deno.test("CONNECT: bytes after the head are the tunnel's", async () => {
  using one = relayed();
  const answer = await one.ask("CONNECT a.ok:443 HTTP/1.1\r\nHost: a.ok\r\n\r\nhello");
  assert.equal(answer, "HTTP/1.1 200 Connection Established\r\n\r\ndone");
  assert.equal(one.dialled[0].to, "a.ok:443");
  assert.equal(await one.dialled[0].sent, "hello");
});

Deno.test("a plain request goes on with its own host, once, and without what is for the proxy", async () => {
  using one = relayed();
  const head =
    "POST http://A.ok:8080/x?y=1 HTTP/1.1\r\nHost: denied.example\r\nProxy-Authorization: x\r\n" +
    "Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\nX-A: 1\r\nContent-Length: 2\r\n\r\n";
  assert.equal(await one.ask(head + "hi"), "done");
  assert.equal(one.dialled[0].to, "a.ok:8080");
  assert.equal(
    await one.dialled[0].sent,
    "POST /x?y=1 HTTP/1.1\r\nHost: a.ok:8080\r\nX-A: 1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
  );
});

Deno.test("what is denied, has no dialler or is no request is answered, and dialled by nobody", async () => {
  const failures: string[] = [];
  using one = relayed({ onFailure: ({ host }, error) => failures.push(`${host} ${error.code}`) });
  assert.match(await one.ask("CONNECT evil:1 HTTP/1.1\r\n\r\n"), /^HTTP\/1\.1 403 /);
  assert.match(
    await one.ask("CONNECT far:1 HTTP/1.1\r\n\r\n"),
    /^HTTP\/1\.1 403 [^]*no route gateway/,
  );
  assert.equal(
    await one.ask("\x05\x01\x00\x05\x01\x00\x03\x04evil\x00\x50"),
    "\x05\x00\x05\x02\x00\x01\0\0\0\0\0\0",
  );
  for (
    const text of [
      "GET / HTTP/1.1\r\nHost: a.ok\r\n\r\n",
      "GET https://a.ok/ HTTP/1.1\r\n\r\n",
      "GET ftp://a.ok/ HTTP/1.1\r\n\r\n",
      "CONNECT a.ok HTTP/1.1\r\n\r\n",
      "CONNECT a.ok:0 HTTP/1.1\r\n\r\n",
      "CONNECT a.ok:99999 HTTP/1.1\r\n\r\n",
      "GET http://a.ok/ HTTP/1.1\r\nX: 1\nHost: evil\r\n\r\n",
      "GET http://a.ok/ HTTP/1.1\r\n folded\r\n\r\n",
      "GET http://a.ok/ HTTP/2\r\n\r\n",
      "get http://a.ok/ HTTP/1.1\r\n\r\n",
      `GET http://a.ok/${"x".repeat(70_000)} HTTP/1.1\r\n`,
    ]
  ) assert.match(await one.ask(text), /^HTTP\/1\.1 400 |^reset$/, text.slice(0, 60));
  // UDP ASSOCIATE and BIND.
  for (const command of ["\x03", "\x02"]) {
    const answer = await one.ask(`\x05\x01\x00\x05${command}\x00\x03\x04a.ok\x00\x50`);
    assert.equal(answer[3], "\x07", "command not supported");
  }
  assert.deepEqual(one.dialled, []);
  assert.deepEqual(failures, ["evil denied", "far denied", "evil denied"]);
});

Deno.test("any bytes: the relay answers or hangs up, dials nothing that is denied, and serves on", async () => {
  using one = relayed();
  const words = fc.constantFrom(
    "CONNECT ",
    "GET ",
    "http://",
    "a.ok",
    "evil",
    ":80",
    " HTTP/1.1",
    "\r\n",
    "\r\n\r\n",
  );
  const near = fc.array(fc.oneof(words, fc.string({ maxLength: 4 })), { maxLength: 12 })
    .map((parts) => parts.join(""));
  const raw = fc.uint8Array({ maxLength: 64 }).map((bytes) => LATIN.decode(bytes));
  await fc.assert(
    fc.asyncProperty(fc.oneof(near, raw), async (text) => {
      await one.ask(
        [...text].map((letter) => String.fromCharCode(letter.charCodeAt(0) & 255)).join(""),
      );
      assert.ok(one.dialled.every(({ to }) => /\.ok:\d+$/.test(to)), one.dialled.at(-1)?.to);
    }),
    { numRuns: 150 },
  );
  assert.match(await one.ask("CONNECT a.ok:1 HTTP/1.1\r\n\r\n"), /^HTTP\/1\.1 200 /);
});

Deno.test("too many connections are closed; one that says nothing, and the relay's end, too", async () => {
  using one = relayed({ limits: { connections: 2, requestMs: 60_000 } });
  const open = () => Deno.connect({ hostname: "127.0.0.1", port: one.port });
  const first = [await open(), await open()];
  // Both are served once a third one is not.
  const third = await open();
  assert.equal(await third.read(new Uint8Array(1)).catch(() => null), null);
  third.close();
  one.relay[Symbol.dispose]();
  for (const conn of first) {
    assert.equal(await conn.read(new Uint8Array(1)).catch(() => null), null);
    conn.close();
  }
  using slow = relayed({ limits: { requestMs: 1 } });
  const silent = await Deno.connect({ hostname: "127.0.0.1", port: slow.port });
  assert.equal(await silent.read(new Uint8Array(1)).catch(() => null), null);
  silent.close();
});

Deno.test("a connection that is not made in time is told", async () => {
  const never = (_: unknown, signal: AbortSignal) =>
    new Promise<Duplex>((_, reject) =>
      signal.addEventListener("abort", () => reject(signal.reason), { once: true })
    );
  using one = relayed({ dialers: { cluster: never }, limits: { connectMs: 1 } });
  assert.match(await one.ask("CONNECT a.ok:1 HTTP/1.1\r\n\r\n"), /^HTTP\/1\.1 504 /);
  const broken = () => Promise.reject(new SvcError("upstream_failed", "Cannot connect: no"));
  using two = relayed({ dialers: { cluster: broken } });
  assert.match(
    await two.ask("CONNECT a.ok:1 HTTP/1.1\r\n\r\n"),
    /^HTTP\/1\.1 502 [^]*Cannot connect: no/,
  );
});

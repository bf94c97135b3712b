/** Bodies over TLS wait for whoever takes them, in both directions. */
import assert from "node:assert/strict";
import type { Duplex } from "node:stream";
import { hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { tcpDialer } from "../../client/transport/tcp.ts";
import { tlsDialer } from "../../client/transport/tls.ts";
import { Reply } from "../../api/reply.ts";
import { listen } from "../listener.ts";

const ignore = !hasOpenssl();
const TOTAL = 96 << 20;
/** More than kernels and streams keep on a connection that nobody reads. */
const BOUND = TOTAL / 2;
const CHUNK = new Uint8Array(64 << 10);

/** Resolves when the count has stood still for a while: whoever counts waits, or is slow. */
async function stalled(count: () => number): Promise<number> {
  for (let still = 0, last = -1; still < 20;) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    still = count() === last ? still + 1 : 0;
    last = count();
  }
  return count();
}

async function withCertificate(
  work: (pem: { cert: string; key: string }, ca: string) => Promise<void>,
) {
  const folder = await Deno.makeTempDir();
  try {
    const authority = await makeAuthority(folder);
    const { cert, key } = await authority.issue("server");
    const [certPem, keyPem] = await Promise.all([cert, key].map((path) => Deno.readTextFile(path)));
    await work({ cert: certPem, key: keyPem }, authority.cert);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test({
  name:
    "TLS: a body that nobody reads is not taken from the connection, and comes whole when it is",
  ignore,
  fn: () =>
    withCertificate(async (tls, ca) => {
      let sent = 0;
      let unread = 0;
      const listener = await listen({ hostname: "127.0.0.1", port: 0, tls }, async ({ body }) => {
        // First nobody asks for the body at all, then a reader takes a little of it and stops.
        unread = await stalled(() => sent);
        const reader = body!.getReader();
        let taken = (await reader.read()).value!.length;
        unread = Math.max(unread, await stalled(() => sent));
        for (let part; !(part = await reader.read()).done;) taken += part.value.length;
        return new Response(String(taken));
      });
      const conn = await Deno.connectTls({
        hostname: "localhost",
        port: listener.address.port,
        caCerts: [await Deno.readTextFile(ca)],
      });
      const writer = conn.writable.getWriter();
      const head =
        `PUT /x HTTP/1.1\r\nhost: a\r\ncontent-length: ${TOTAL}\r\nconnection: close\r\n\r\n`;
      await writer.write(new TextEncoder().encode(head));
      while (sent < TOTAL) {
        await writer.write(CHUNK);
        sent += CHUNK.length;
      }
      const answer = await new Response(conn.readable).text();
      assert.ok(answer.includes(`\r\n${TOTAL}\r\n`), answer);
      assert.ok(unread < BOUND, `${unread} bytes were taken`);
      await writer.close().catch(() => {/* closed by the server */});
      await listener.shutdown();
    }),
});

Deno.test({
  name: "TLS: what the client's side does not take is not read, and comes whole when it is",
  ignore,
  fn: () =>
    withCertificate(async (tls, ca) => {
      using door = Deno.listenTls({ hostname: "127.0.0.1", port: 0, ...tls });
      let sent = 0;
      const serve = async () => {
        const conn = await door.accept();
        const writer = conn.writable.getWriter();
        while (sent < TOTAL) {
          await writer.write(CHUNK);
          sent += CHUNK.length;
        }
        await writer.close();
      };
      const serving = serve();
      const server = `https://localhost:${door.addr.port}`;
      await using dialer = await tlsDialer({
        inner: tcpDialer(server),
        settings: { "ca-cert": ca },
        server,
      });
      const stream: Duplex = await dialer.dial();
      let taken = 0;
      const ended = new Promise<void>((resolve) => stream.once("end", resolve));
      const first = new Promise<void>((resolve) =>
        stream.on("data", (bytes: Uint8Array) => {
          taken += bytes.length;
          if (taken === bytes.length) stream.pause();
          resolve();
        })
      );
      await first;
      const unread = await stalled(() => sent);
      stream.resume();
      await ended;
      await serving;
      stream.destroy();
      assert.equal(taken, TOTAL);
      assert.ok(unread < BOUND, `${unread} bytes were taken`);
    }),
});

for (
  const [who, head] of [
    ["stays open until it is idle", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"],
    ["closes behind it", "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"],
  ]
) {
  Deno.test({
    name: `TLS: a file comes whole on a connection that ${who}, and the end is told`,
    ignore,
    fn: () =>
      withCertificate(async (tls, ca) => {
        const size = 8 << 20;
        const path = await Deno.makeTempFile();
        await using cleanup = new AsyncDisposableStack();
        cleanup.defer(() => Deno.remove(path));
        await Deno.truncate(path, size);
        const listener = await listen(
          { hostname: "127.0.0.1", port: 0, tls, limits: { idleMs: 200 } },
          () => {
            const body = { size, stream: () => ReadableStream.from([]), file: { path, offset: 0 } };
            return Promise.resolve(new Reply(200, { "content-length": String(size) }, body));
          },
        );
        cleanup.defer(() => listener.close());
        using conn = await Deno.connectTls({
          hostname: "localhost",
          port: listener.address.port,
          caCerts: [await Deno.readTextFile(ca)],
        });
        await conn.write(new TextEncoder().encode(head));
        const buffer = new Uint8Array(256 << 10);
        let zeros = 0;
        // Without TLS's own end (close_notify) the last read fails: nobody could tell it from a broken connection.
        for (let count; (count = await conn.read(buffer)) !== null;) {
          for (const byte of buffer.subarray(0, count)) if (byte === 0) zeros++;
        }
        assert.equal(zeros, size);
      }),
  });
}

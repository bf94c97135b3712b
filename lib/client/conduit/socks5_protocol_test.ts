import assert from "node:assert/strict";
import fc from "fast-check";
import { duplexPair } from "../../wire/testing.ts";
import { runs } from "../../../test/fixtures/property.ts";
import { type Handshake, handshake } from "../../wire/socks5/protocol.ts";
import { HELLO, request } from "./socks5_testing.ts";

interface Outcome {
  result: Handshake;
  /** What the server said before the result. */
  said: number[];
}

/** The handshake of a client that sends these pieces and hangs up. */
async function of(...pieces: (number[] | Uint8Array)[]): Promise<Outcome> {
  const [client, server] = duplexPair();
  for (const piece of pieces) await client.write(new Uint8Array(piece));
  await client.closeWrite();
  const result = await handshake(server);
  await server.closeWrite();
  const said: number[] = [];
  for (let bytes = await client.read(); bytes; bytes = await client.read()) said.push(...bytes);
  return { result, said };
}

const GREETED = [5, 0];

Deno.test("handshake: names and addresses, cut after every byte", async () => {
  const port = [0x1f, 0x90];
  const rows: [number[], string][] = [
    [request("db.svc.internal", 8080), "db.svc.internal"],
    [request("a".repeat(255), 8080), "a".repeat(255)],
    [request("[::1]", 8080), "::1"],
    [[5, 1, 0, 1, 192, 0, 2, 255, ...port], "192.0.2.255"],
    [[5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, ...Array(11).fill(0), 1, ...port], "2001:db8::1"],
    // The reserved byte is nobody's business.
    [[5, 1, 9, 1, 192, 0, 2, 1, ...port], "192.0.2.1"],
  ];
  for (const [bytes, host] of rows) {
    const all = [5, 3, 2, 0, 1, ...bytes, 7, 8];
    for (let at = 0; at <= all.length; at++) {
      const { result, said } = await of(all.slice(0, at), all.slice(at));
      assert.ok(result.kind === "connect");
      const ahead = [...result.ahead];
      assert.deepEqual([result.host, result.port, said], [host, 8080, GREETED]);
      // What is behind the request comes with it, or is still to be read.
      assert.deepEqual(ahead, at >= all.length - 2 && at < all.length ? all.slice(-2, at) : [7, 8]);
    }
    const whole = await of(...all.map((byte) => [byte]));
    assert.ok(whole.result.kind === "connect");
    // One that hangs up anywhere before the end of its request.
    for (let at = 0; at < all.length - 2; at++) {
      const { result, said } = await of(all.slice(0, at));
      assert.equal(result.kind, "gone");
      assert.deepEqual(said, at < 5 ? [] : GREETED);
    }
  }
});

Deno.test("handshake: what is refused, how, and in what words", async () => {
  const reply = (code: number) => [5, code, 0, 1, 0, 0, 0, 0, 0, 0];
  const rows: [number[], number[], RegExp][] = [
    [[5, 1, 2], [5, 0xff], /insists on a name and a password \(RFC 1929\)/],
    [[5, 1, 1], [5, 0xff], /no method of authentication/],
    [[5, 0], [5, 0xff], /no method of authentication/],
    [[4, 1, 0, 80, 127, 0, 0, 1, 0], [0, 0x5b, 0, 0, 0, 0, 0, 0], /speaks SOCKS4/],
    [[0x16, 3, 1], [], /speaks TLS/],
    [[0], [], /does not speak SOCKS5/],
    [[...HELLO, ...request("a", 1, 2)], reply(7), /asks for BIND; there is only CONNECT/],
    [[...HELLO, ...request("a", 1, 3)], reply(7), /asks for UDP ASSOCIATE/],
    [[...HELLO, ...request("a", 1, 99)], reply(7), /asks for command 99/],
    [[...HELLO, 5, 1, 0, 2], reply(8), /no known type of address/],
    [[...HELLO, 4, 1, 0, 1], reply(1), /none of SOCKS5/],
    [[...HELLO, ...request("", 1)], reply(4), /not a name/],
    [[...HELLO, ...request("a\x1b[2Jb", 1)], reply(4), /not a name/],
    [[...HELLO, ...request("bücher.example", 1)], reply(4), /not a name/],
    [[...HELLO, ...request("a", 0)], reply(1), /port 0/],
  ];
  for (const [sent, answer, why] of rows) {
    const { result } = await of(sent);
    assert.ok(result.kind === "refused", `${sent}: ${result.kind}`);
    assert.deepEqual([...result.answer], answer);
    assert.match(result.why, why);
  }
});

Deno.test("handshake: an HTTP client is answered in its own words", async () => {
  for (const line of ["GET / HTTP/1.1\r\n", "CONNECT a:443 HTTP/1.1\r\n", "get "]) {
    const { result } = await of(new TextEncoder().encode(line));
    assert.ok(result.kind === "refused");
    const text = new TextDecoder().decode(result.answer);
    assert.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/);
    const [head, body] = text.split("\r\n\r\n");
    assert.match(head, new RegExp(`content-length: ${body.length}$`));
    assert.match(result.why, /speaks HTTP/);
  }
});

Deno.test("handshake: any bytes in any pieces end in one of three ways", async () => {
  const piece = fc.uint8Array({ maxLength: 40 });
  const likely = fc.constantFrom(HELLO, request("a", 1), [5, 1, 0], [5], [1, 0, 3], [255]);
  const pieces = fc.array(fc.oneof(piece, likely.map((bytes) => new Uint8Array(bytes))), {
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(pieces, async (sent) => {
      const { result } = await of(...sent);
      assert.ok(["connect", "refused", "gone"].includes(result.kind));
      // Split otherwise it is the same.
      const bytes = sent.flatMap((one) => [...one]);
      const { result: again } = await of(...bytes.map((byte) => [byte]));
      assert.equal(again.kind, result.kind);
      if (again.kind === "connect" && result.kind === "connect") {
        assert.deepEqual([again.host, again.port], [result.host, result.port]);
        assert.match(again.host, /^[\x21-\x7e]{1,255}$/);
      }
    }),
    runs(300),
  );
});

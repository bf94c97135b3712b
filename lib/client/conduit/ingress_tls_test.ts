import assert from "node:assert/strict";
import { connect as connectTcp } from "node:net";
import { connect, type ConnectionOptions } from "node:tls";
import { join } from "node:path";
import { hasOpenssl, makeAuthority } from "../../../test/peers/pki.ts";
import { CertificateRules, loadCertificates } from "./certificates.ts";
import { generatedAuthority } from "./ingress_authority.ts";
import { listenLocally, LOOPBACK } from "./ingress_listen.ts";
import { acceptTls, ServerContexts } from "./ingress_tls.ts";

const ignore = !hasOpenssl();

interface Fixture {
  port: number;
  /** PEM of the generated authority, of the rules' one. */
  ca: string;
  own: string;
  folder: string;
}

/** Echoes what comes after a word of its own, until the client has ended. */
async function withEcho(work: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const own = await makeAuthority(folder, "own");
    const leaf = await own.issue("app", { names: ["DNS:app.example.com", "DNS:*.wild.example"] });
    await Deno.chmod(leaf.key, 0o600);
    const rules = await loadCertificates(
      [{ certificate: leaf.cert, key: leaf.key }],
      (text) => assert.fail(text),
    );
    const authority = await generatedAuthority(join(folder, "ca"));
    const contexts = new ServerContexts(() => rules, authority);
    await using listener = await listenLocally({
      preferred: 0,
      onError: (error) => assert.fail(error),
      async serve(raw) {
        const stream = await acceptTls(raw, contexts, { handshakeMs: 60_000 });
        if (!stream) return;
        try {
          await stream.write(new TextEncoder().encode("hello "));
          for (let bytes; (bytes = await stream.read());) await stream.write(bytes);
          await stream.closeWrite();
        } catch {
          // the client is gone
        } finally {
          stream.reset();
        }
      },
    });
    await work({
      folder,
      port: listener.port,
      ca: await Deno.readTextFile(authority.path),
      own: await Deno.readTextFile(own.cert),
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

interface Answer {
  subject: string;
  text: string;
  protocol: string | false | null;
}

/** Says its word when the handshake is over, ends its direction, and reads to the end. */
function ask(port: number, options: ConnectionOptions, word = "word"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: LOOPBACK, port, ALPNProtocols: ["http/1.1"], ...options });
    let text = "";
    let subject = "";
    socket.once("secureConnect", () => {
      subject = String(socket.getPeerCertificate().subject?.CN);
      socket.write(word, () => socket.end());
    });
    socket.on("data", (data: Uint8Array) => text += new TextDecoder().decode(data));
    socket.once("error", reject);
    socket.once("close", () => resolve({ subject, text, protocol: socket.alpnProtocol }));
  });
}

/** Bytes that came back of so many, of a client that hangs up when it has them. */
function exchanged(port: number, ca: string, size: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: LOOPBACK, port, servername: "x.y", ca });
    let received = 0;
    socket.once("secureConnect", () => socket.write(new Uint8Array(size)));
    socket.on("data", (data: Uint8Array) => {
      received += data.length;
      if (received >= "hello ".length + size) socket.destroy();
    });
    socket.once("error", reject);
    socket.once("close", () => resolve(received));
  });
}

Deno.test({
  name: "ingress TLS: SNI selects a rule's certificate, the authority signs for every other name",
  ignore,
}, async () => {
  await withEcho(async ({ port, ca, own }) => {
    const good = (subject: string) => ({ subject, text: "hello word", protocol: "http/1.1" });
    const to = (servername: string, ca: string) => ask(port, { servername, ca });
    assert.deepEqual(await to("app.example.com", own), good("app"));
    assert.deepEqual(await to("APP.example.com", own), good("app"));
    assert.deepEqual(await to("x.wild.example", own), good("app"));
    assert.deepEqual(await to("other.example.com", ca), good("other.example.com"));
    assert.deepEqual(await to("other.example.com", ca), good("other.example.com"));
    assert.deepEqual(await to("a.x.wild.example", ca), good("a.x.wild.example"));
    await assert.rejects(to("app.example.com", ca));
    await assert.rejects(to("other.example.com", own));
    // Without a name it is as if this machine were meant.
    assert.deepEqual(await ask(port, { ca, host: "127.0.0.1" }), good("localhost"));
    for (const servername of ["no_dns!", "a..b"]) {
      const answer = await ask(port, { servername, rejectUnauthorized: false });
      assert.deepEqual(answer, good("localhost"));
    }
    await assert.rejects(ask(port, { servername: "x.y", ca, ALPNProtocols: ["h2"] }));
    const size = 3_000_000;
    assert.equal(await exchanged(port, ca, size), "hello ".length + size);
  });
});

Deno.test({
  name: "ingress TLS: the leaves that are kept are bounded, and new ones in time",
  ignore,
}, async () => {
  const folder = await Deno.makeTempDir();
  try {
    const authority = await generatedAuthority(join(folder, "ca"));
    const contexts = new ServerContexts(() => new CertificateRules([]), authority);
    const first = contexts.of("a0.example");
    for (let i = 1; i < 256; i++) contexts.of(`a${i}.example`);
    assert.equal(contexts.of("a0.example"), first);
    const second = contexts.of("a2.example");
    contexts.of("more.example");
    assert.equal(contexts.of("a0.example"), first);
    assert.equal(contexts.of("a2.example"), second);
    const again = contexts.of("a1.example");
    assert.equal(contexts.of("a1.example"), again);
    assert.notEqual(contexts.of(""), contexts.of("localhost"));
    const soon = authority.issue(["x"], [], Date.now() + 3650 * 24 * 3_600_000);
    assert.ok(soon.until > Date.now());
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** A ClientHello as openssl sends it. */
async function clientHello(port: number): Promise<Uint8Array> {
  const listener = Deno.listen({ hostname: LOOPBACK, port: 0 });
  const caught = (async () => {
    using conn = await listener.accept();
    const bytes = new Uint8Array(16 << 10);
    let length = 0;
    // The whole record: what comes first may be a part of it.
    for (let whole = 5; length < whole;) {
      length += (await conn.read(bytes.subarray(length)))!;
      if (length >= 5) whole = 5 + bytes[3] * 256 + bytes[4];
    }
    return bytes.slice(0, length);
  })();
  const { port: at } = listener.addr as Deno.NetAddr;
  assert.notEqual(at, port);
  const client = connect({ host: LOOPBACK, port: at, servername: "app.example.com" });
  client.on("error", () => {/* nobody answers it */});
  const bytes = await caught;
  client.destroy();
  listener.close();
  return bytes;
}

/** Sends the pieces one by one and waits until it is hung up on, or has what it waits for. */
function send(port: number, pieces: Uint8Array[], enough = Infinity): Promise<number> {
  return new Promise((resolve) => {
    const socket = connectTcp(port, LOOPBACK);
    let received = 0;
    socket.setNoDelay(true);
    socket.on("error", () => {/* its closing says it */});
    socket.once("close", () => resolve(received));
    socket.on("data", (data: Uint8Array) => {
      received += data.length;
      if (received >= enough) socket.destroy();
    });
    socket.once("connect", async () => {
      for (const piece of pieces) {
        if (socket.destroyed) return;
        await new Promise<void>((resolve) => socket.write(piece, () => resolve()));
      }
      if (enough === Infinity) socket.end();
    });
  });
}

Deno.test({
  name: "ingress TLS: rubbish, damaged and slow hellos hurt nobody else",
  ignore,
}, async () => {
  await withEcho(async ({ port, own }) => {
    const hello = await clientHello(port);
    // In single bytes it is a hello still; not all of them, since its time is limited.
    const bytes = [...hello.subarray(0, 200)].map((byte) => Uint8Array.of(byte));
    assert.ok(await send(port, [...bytes, hello.subarray(200)], 100) >= 100);
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % below;
    };
    const damaged = Array.from({ length: 60 }, () => {
      const copy = hello.slice(0, 1 + random(hello.length));
      for (let i = 0; i <= random(8); i++) copy[random(copy.length)] = random(256);
      return copy;
    });
    const rubbish = [
      new TextEncoder().encode("GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
      crypto.getRandomValues(new Uint8Array(60_000)),
      new Uint8Array(0),
      Uint8Array.of(0x16, 3, 1, 0xff, 0xff, ...new Uint8Array(70_000)),
    ];
    // These say nothing more, and stay.
    const silent = Array.from({ length: 20 }, () => connectTcp(port, LOOPBACK));
    for (const socket of silent) socket.on("error", () => {/* it is ended with the listener */});
    for (const piece of [...rubbish, ...damaged]) await send(port, [piece]);
    const answer = await ask(port, { servername: "app.example.com", ca: own });
    assert.equal(answer.text, "hello word");
    for (const socket of silent) socket.destroy();
  });
});

Deno.test("ingress TLS: a client that says nothing is let go of after its time", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const authority = await generatedAuthority(join(folder, "ca"));
    const contexts = new ServerContexts(() => new CertificateRules([]), authority);
    const served = Promise.withResolvers<unknown>();
    await using listener = await listenLocally({
      preferred: 0,
      onError: (error) => assert.fail(error),
      serve: (raw) => acceptTls(raw, contexts, { handshakeMs: 50 }).then(served.resolve),
    });
    using conn = await Deno.connect({ hostname: LOOPBACK, port: listener.port });
    assert.equal(await conn.read(new Uint8Array(1)).catch(() => null), null);
    assert.equal(await served.promise, undefined);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("ingress listeners: a port that is taken is not a failure; connections are limited and end with it", async () => {
  using taken = Deno.listen({ hostname: LOOPBACK, port: 0 });
  const { port } = taken.addr as Deno.NetAddr;
  const serving = Promise.withResolvers<void>();
  const listener = await listenLocally({
    preferred: port,
    limit: 1,
    onError: (error) => assert.fail(error),
    serve: (socket) => {
      serving.resolve();
      return new Promise((resolve) => socket.once("close", () => resolve()));
    },
  });
  assert.notEqual(listener.port, port);
  using first = await Deno.connect({ hostname: LOOPBACK, port: listener.port });
  await serving.promise;
  using second = await Deno.connect({ hostname: LOOPBACK, port: listener.port });
  assert.equal(await second.read(new Uint8Array(1)).catch(() => null), null);
  await listener[Symbol.asyncDispose]();
  assert.equal(await first.read(new Uint8Array(1)).catch(() => null), null);
});

import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import {
  type Authority,
  EXPIRED,
  hasOpenssl,
  makeAuthority,
  type Pair,
} from "../../../test/peers/pki.ts";
import { listen, type Listener } from "../listener.ts";
import { ClientCertificates } from "./client_certificates.ts";

interface Fixture {
  folder: string;
  ca: Authority;
  server: Pair;
  listener: Listener;
  /** Clients' certificates have to be of these from now on. */
  trust(...authorities: Pair[]): Promise<void>;
}

async function withListener(work: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const ca = await makeAuthority(folder, "ca");
    const server = await ca.issue("server");
    const material = async (authorities: Pair[]) => ({
      cert: await Deno.readTextFile(server.cert),
      key: await Deno.readTextFile(server.key),
      clientCa: (await Promise.all(authorities.map(({ cert }) => Deno.readTextFile(cert)))).join(
        "",
      ),
    });
    const listener = await listen(
      { hostname: "127.0.0.1", port: 0, tls: await material([ca]) },
      (_request, { certificate }) => {
        const body = `${JSON.stringify(certificate ?? {})}\n`;
        const headers = { "content-length": String(body.length) };
        return Promise.resolve(new Response(body, { headers }));
      },
    );
    const trust: Fixture["trust"] = async (...authorities) =>
      listener.setTls!(await material(authorities));
    try {
      await work({ folder, ca, server, listener, trust });
    } finally {
      await listener.close();
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

interface Answer {
  commonName?: string;
  refused?: string;
  resumed: boolean;
}

/** One request of openssl's client, which keeps its session in `session`, or resumes that. */
async function ask(
  { folder, ca, listener }: Fixture,
  version: string,
  session: string,
  client?: Pair,
): Promise<Answer> {
  const file = join(folder, session);
  const child = new Deno.Command("openssl", {
    args: [
      ...["s_client", version, "-ign_eof", "-connect", `127.0.0.1:${listener.address.port}`],
      ...["-servername", "localhost", "-CAfile", ca.cert],
      ...client
        ? ["-cert", client.cert, "-key", client.key, "-cert_chain", client.cert, "-sess_out", file]
        : ["-sess_in", file],
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(
    new TextEncoder().encode("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
  );
  await writer.close();
  const text = new TextDecoder().decode((await child.output()).stdout);
  const [, begun] = /^(New|Reused), TLS/m.exec(text) ?? [];
  const [body] = /^\{.*\}$/m.exec(text) ?? [];
  assert(begun && body, text);
  return { ...JSON.parse(body), resumed: begun === "Reused" };
}

// Handshakes that are over leave the TLS layer's own operations behind for a moment.
const options = { ignore: !hasOpenssl(), sanitizeOps: false, sanitizeResources: false };

Deno.test(
  "client certificates: one that was refused is refused in a resumed session too",
  options,
  async () => {
    await withListener(async (fixture) => {
      const { folder, ca } = fixture;
      const foreign = await makeAuthority(folder, "foreign");
      const below = await ca.subordinate("below");
      const chained = await below.issue("carol");
      await Deno.writeTextFile(chained.cert, await Deno.readTextFile(below.cert), { append: true });
      const good: [Pair, string][] = [[await ca.issue("alice"), "alice"], [chained, "carol"]];
      const mallory = await foreign.issue("mallory", { subject: "/CN=alice" });
      const bad: [Pair, RegExp][] = [
        [mallory, /none of the server's authorities/],
        [await ca.issue("late", EXPIRED), /expired/],
        [
          await ca.issue("early", { notBefore: "20990101000000Z", notAfter: "20990201000000Z" }),
          /not good yet/,
        ],
        [await ca.issue("site", { usage: "serverAuth" }), /not one for clients/],
      ];
      for (const version of ["-tls1_2", "-tls1_3"]) {
        for (const [pair, name] of good) {
          const first = await ask(fixture, version, name, pair);
          assert.deepEqual([first.commonName, first.resumed], [name, false], version);
          const again = await ask(fixture, version, name);
          assert.deepEqual([again.commonName, again.resumed], [name, true]);
        }
        for (const [pair, why] of bad) {
          const first = await ask(fixture, version, "bad", pair);
          const again = await ask(fixture, version, "bad");
          assert.deepEqual([first.resumed, again.resumed], [false, true], version);
          for (const { commonName, refused } of [first, again]) {
            assert.equal(commonName, undefined, `${version} ${pair.cert}`);
            assert.match(refused!, /./);
          }
          assert.match(first.refused!, why);
        }
      }
    });
  },
);

Deno.test(
  "client certificates: authorities that are withdrawn vouch for nobody, on open connections neither",
  options,
  async () => {
    await withListener(async (fixture) => {
      const { folder, ca, listener, trust } = fixture;
      const other = await makeAuthority(folder, "other");
      const alice = await ca.issue("alice");
      const bob = await other.issue("bob");
      const text = (path: string) => Deno.readTextFile(path);
      using open = await Deno.connectTls({
        hostname: "localhost",
        port: listener.address.port,
        caCerts: [await text(ca.cert)],
        cert: await text(alice.cert),
        key: await text(alice.key),
      });
      const onOpen = async () => {
        await open.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
        let answer = "";
        for (const part = new Uint8Array(4096); !answer.endsWith("}\n");) {
          const count = await open.read(part);
          assert(count !== null, "the connection stays open");
          answer += new TextDecoder().decode(part.subarray(0, count));
        }
        return JSON.parse(answer.slice(answer.indexOf("\r\n\r\n")));
      };
      assert.equal((await onOpen()).commonName, "alice");
      for (const version of ["-tls1_2", "-tls1_3"]) await ask(fixture, version, version, alice);
      await trust(other);
      assert.match((await onOpen()).refused, /none of the server's authorities/);
      for (const version of ["-tls1_2", "-tls1_3"]) {
        const { resumed, refused } = await ask(fixture, version, version);
        assert(resumed, version);
        assert.match(refused!, /none of the server's authorities/);
        assert.equal((await ask(fixture, version, "bob", bob)).commonName, "bob");
      }
      await trust(other, ca);
      assert.equal((await onOpen()).commonName, "alice");
      assert.equal((await ask(fixture, "-tls1_3", "-tls1_3")).commonName, "alice");
    });
  },
);

/** A connection as the TLS layer shows it. */
async function socketWith(
  paths: string[],
  { authorized = true, resumed = false } = {},
): Promise<{ socket: TLSSocket; asked: () => number }> {
  const chain = await Promise.all(
    paths.map(async (path) => new X509Certificate(await Deno.readTextFile(path)).raw),
  );
  const presented = chain.reduceRight<object | undefined>(
    (issuerCertificate, raw) => ({ raw, issuerCertificate, subject: { CN: "alice" } }),
    undefined,
  );
  let asked = 0;
  const socket = {
    authorized,
    isSessionReused: () => resumed,
    getPeerCertificate: () => (asked++, presented),
  };
  return { socket: socket as unknown as TLSSocket, asked: () => asked };
}

Deno.test("client certificates: they end in the middle of a connection", options, async () => {
  const folder = await Deno.makeTempDir();
  try {
    const ca = await makeAuthority(folder, "ca");
    const { cert } = await ca.issue("alice");
    const { validTo } = new X509Certificate(await Deno.readTextFile(cert));
    let now = Date.now();
    const certificates = new ClientCertificates(await Deno.readTextFile(ca.cert), () => now);
    const resumed = await socketWith([cert], { resumed: true });
    const unknown = certificates.examine(resumed.socket);
    assert.match(unknown.certificate!.refused!, /when the session began/);
    const refused = await socketWith([cert], { authorized: false });
    assert.match(
      certificates.examine(refused.socket).certificate!.refused!,
      /not one for clients/,
    );
    const { socket, asked } = await socketWith([cert]);
    const found = certificates.examine(socket);
    assert.deepEqual(found.certificate, { commonName: "alice", until: found.until });
    assert.equal(certificates.examine(socket, found), found);
    assert.equal(asked(), 1);
    assert.equal(certificates.examine(resumed.socket).certificate?.commonName, "alice");
    now = Date.parse(validTo);
    assert.match(certificates.examine(socket, found).certificate!.refused!, /has expired/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test(
  "client certificates: the whole chain counts, whatever the TLS layer says",
  options,
  async () => {
    const folder = await Deno.makeTempDir();
    const elsewhere = await Deno.makeTempDir();
    try {
      const ca = await makeAuthority(folder, "ca");
      const alice = await ca.issue("alice");
      const day = 86_400_000;
      const end = new Date(Math.floor(Date.now() / 1000) * 1000 + day);
      const notAfter = end.toISOString().replace(/[-:T]|\.\d+/g, "");
      const short = await ca.subordinate("short", { notAfter });
      const below = await short.issue("below");
      const byAlice = await alice.issue("mallory");
      // The name of an authority is not its key.
      const own = await makeAuthority(elsewhere, "ca").then(({ issue }) => issue("alice"));
      const bundle = await Deno.readTextFile(ca.cert);
      const look = async (paths: string[], now = Date.now()) => {
        const { socket } = await socketWith(paths);
        return new ClientCertificates(bundle, () => now).examine(socket);
      };
      const good = await look([below.cert, short.cert]);
      assert.equal(good.certificate?.commonName, "alice");
      assert.equal(good.until, end.getTime());
      const late = await look([below.cert, short.cert], end.getTime() + day);
      assert.match(late.certificate!.refused!, /its authority has expired/);
      const none = /none of the server's authorities/;
      for (const paths of [[own.cert], [below.cert], [byAlice.cert, alice.cert]]) {
        assert.match((await look(paths)).certificate!.refused!, none, paths.join());
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
      await Deno.remove(elsewhere, { recursive: true });
    }
  },
);

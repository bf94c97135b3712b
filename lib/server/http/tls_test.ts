import assert from "node:assert/strict";
import { request as httpsRequest } from "node:https";
import { connect as connectTls } from "node:tls";
import {
  type Authority,
  EXPIRED,
  hasOpenssl,
  makeAuthority,
  type Pair,
} from "../../../test/peers/pki.ts";
import { silent } from "../../base/log.ts";
import { type Handler, listen, type Listener } from "../listener.ts";
import { openServerTls } from "../tls.ts";
import { openTlsFiles } from "./tls.ts";

const ignore = !hasOpenssl();

interface Fixture {
  folder: string;
  ca: Authority;
  foreign: Authority;
  server: Pair;
}

async function withFixture(work: (fixture: Fixture) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const [ca, foreign] = await Promise.all([
      makeAuthority(folder, "ca"),
      makeAuthority(folder, "foreign"),
    ]);
    await work({ folder, ca, foreign, server: await ca.issue("server") });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const whoami: Handler = (request, { certificate }) =>
  Promise.resolve(Response.json({ certificate: certificate ?? null, url: request.url }));

interface Answer {
  certificate: { commonName?: string; refused?: string } | null;
  url: string;
  /** Fingerprint of the server's certificate. */
  server: string;
}

/** One request on a connection of its own. */
async function ask(listener: Listener, ca: string, client?: Pair): Promise<Answer> {
  const read = (path: string) => Deno.readTextFileSync(path);
  return await new Promise((resolve, reject) => {
    const request = httpsRequest({
      host: "localhost",
      port: listener.address.port,
      path: "/who",
      agent: false,
      ca: read(ca),
      ...(client && { cert: read(client.cert), key: read(client.key) }),
    }, (response) => {
      let text = "";
      const socket = response.socket as unknown as {
        getPeerCertificate(): { fingerprint256: string };
      };
      const server = socket.getPeerCertificate().fingerprint256;
      response.on("data", (chunk) => text += chunk);
      response.on("end", () => resolve({ ...JSON.parse(text), server }));
    });
    request.on("error", reject);
    request.end();
  });
}

// The client's side is node's, whose sockets end in their own time.
const options = { ignore, sanitizeOps: false, sanitizeResources: false };

Deno.test(
  "tls: certificates of clients tell who they are; none is fine, a bad one is named",
  options,
  async () => {
    await withFixture(async ({ ca, foreign, server }) => {
      using files = await openTlsFiles({ ...server, clientCa: ca.cert }, { log: silent });
      const listener = await listen(
        { hostname: "127.0.0.1", port: 0, tls: files.material },
        whoami,
      );
      try {
        const none = await ask(listener, ca.cert);
        assert.equal(none.certificate, null);
        assert.match(none.url, /^https:\/\/localhost:\d+\/who$/);
        const alice = await ca.issue("alice");
        assert.equal((await ask(listener, ca.cert, alice)).certificate?.commonName, "alice");
        const bad = [
          await foreign.issue("mallory"),
          await ca.issue("late", EXPIRED),
          await ca.issue("nameless", { subject: "/O=nobody" }),
        ];
        for (const pair of bad) {
          const { certificate } = await ask(listener, ca.cert, pair);
          assert.equal(certificate?.commonName, undefined, pair.cert);
          assert.notEqual(certificate?.refused ?? "", "", pair.cert);
        }
      } finally {
        await listener.close();
      }
    });
  },
);

Deno.test(
  "tls: changed files serve new connections, open ones go on, rubbish changes nothing",
  options,
  async () => {
    await withFixture(async ({ ca, server }) => {
      const lines: string[] = [];
      const log = { ...silent, warn: (line: string) => void lines.push(line) };
      const paths = { ...server, clientCa: ca.cert };
      using files = await openTlsFiles(paths, { log, everyMs: 3_600_000 });
      const listener = await listen(
        { hostname: "127.0.0.1", port: 0, tls: files.material },
        whoami,
      );
      files.follow((material) => listener.setTls!(material));
      const open = connectTls({
        port: listener.address.port,
        host: "127.0.0.1",
        servername: "localhost",
        ca: Deno.readTextFileSync(ca.cert),
      });
      try {
        await new Promise<void>((resolve, reject) => {
          open.once("secureConnect", resolve);
          open.once("error", reject);
        });
        const before = await ask(listener, ca.cert);
        const next = await ca.issue("next");
        await Deno.copyFile(next.cert, server.cert);
        await files.check();
        assert.equal(lines.length, 1);
        assert.equal((await ask(listener, ca.cert)).server, before.server);
        await Deno.copyFile(next.key, server.key);
        await files.check();
        const after = await ask(listener, ca.cert);
        assert.notEqual(after.server, before.server);
        for (
          const text of [
            "",
            "rubbish",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
          ]
        ) {
          await Deno.writeTextFile(server.cert, text);
          await files.check();
          assert.equal((await ask(listener, ca.cert)).server, after.server);
        }
        await Deno.remove(server.key);
        await files.check();
        assert.equal((await ask(listener, ca.cert)).server, after.server);
        assert.equal(lines.length, 5);
        // The clients' certificates are still asked for and verified.
        const alice = await ca.issue("alice");
        assert.equal((await ask(listener, ca.cert, alice)).certificate?.commonName, "alice");
        const answered = new Promise<string>((resolve) =>
          open.once("data", (bytes) => resolve(String(bytes)))
        );
        open.write("GET /still HTTP/1.1\r\nHost: h\r\n\r\n");
        assert.match(await answered, /^HTTP\/1\.1 200 /);
      } finally {
        open.destroy();
        await listener.close();
      }
    });
  },
);

Deno.test("tls: files that are no good are startup errors", options, async () => {
  await withFixture(async ({ folder, foreign, server }) => {
    const rubbish = `${folder}/rubbish`;
    await Deno.writeTextFile(rubbish, "x");
    const other = await foreign.issue("other");
    const cases: [Parameters<typeof openServerTls>[0], RegExp][] = [
      [{ tlsCert: rubbish, tlsKey: server.key, tlsClientCa: undefined }, /no certificate in PEM/],
      [{ tlsCert: server.cert, tlsKey: rubbish, tlsClientCa: undefined }, /no private key in PEM/],
      [{ tlsCert: server.cert, tlsKey: other.key, tlsClientCa: undefined }, /does not belong to/],
      [{ tlsCert: server.cert, tlsKey: server.key, tlsClientCa: rubbish }, /rubbish: it holds no/],
      [{ tlsCert: `${folder}/no`, tlsKey: server.key, tlsClientCa: undefined }, /no such file/],
    ];
    for (const [config, why] of cases) await assert.rejects(openServerTls(config, silent), why);
    const nothing = { tlsCert: undefined, tlsKey: undefined, tlsClientCa: undefined };
    assert.equal(await openServerTls(nothing, silent), undefined);
  });
});

Deno.test("tls: a certificate whose time is over, or has not come, is told", options, async () => {
  await withFixture(async ({ ca, server }) => {
    const lines: string[] = [];
    const log = { ...silent, warn: (line: string) => void lines.push(line) };
    const late = await ca.issue("late", EXPIRED);
    const early = await ca.issue("early", {
      notBefore: "20990101000000Z",
      notAfter: "20990201000000Z",
    });
    using files = await openTlsFiles(late, { log, everyMs: 3_600_000 });
    for (const { cert, key } of [early, server]) {
      await Deno.copyFile(cert, late.cert);
      await Deno.copyFile(key, late.key);
      await files.check();
    }
    assert.deepEqual(lines.map((line) => /has expired|not valid yet/.exec(line)?.[0]), [
      "has expired",
      "not valid yet",
    ]);
  });
});

Deno.test("tls: closing does not wait for connections that never begin", options, async () => {
  await withFixture(async ({ ca, server }) => {
    using files = await openTlsFiles(server, { log: silent });
    const listener = await listen({ hostname: "127.0.0.1", port: 0, tls: files.material }, whoami);
    using silentOne = await Deno.connect({ hostname: "127.0.0.1", port: listener.address.port });
    using plain = await Deno.connect({ hostname: "127.0.0.1", port: listener.address.port });
    await plain.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    await ask(listener, ca.cert);
    await listener.close();
    assert.equal(await silentOne.read(new Uint8Array(1)).catch(() => null), null);
  });
});

Deno.test(
  "tls: connections beyond the limit are closed, those that ended make room",
  options,
  async () => {
    await withFixture(async ({ ca, server }) => {
      using files = await openTlsFiles(server, { log: silent });
      const listener = await listen(
        { hostname: "127.0.0.1", port: 0, tls: files.material, maxConnections: 1 },
        whoami,
      );
      /** The server may learn a moment later that the one before has gone. */
      const served = async () => {
        for (;;) {
          const answer = await ask(listener, ca.cert).catch(() => undefined);
          if (answer) return answer;
        }
      };
      try {
        // Its handshake never begins.
        const silentOne = await Deno.connect({
          hostname: "127.0.0.1",
          port: listener.address.port,
        });
        await assert.rejects(ask(listener, ca.cert));
        silentOne.close();
        for (let n = 0; n < 3; n++) assert.equal((await served()).certificate, null);
      } finally {
        await listener.close();
      }
    });
  },
);

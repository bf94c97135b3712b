/** The rows of SPEC.md's table TLS, against certificates that openssl made. */
import assert from "node:assert/strict";
import { createServer } from "node:https";
import type { TLSSocket } from "node:tls";
import { join } from "node:path";
import { makeAuthority } from "../../../test/peers/pki.ts";
import { requireTools } from "../../../test/e2e/harness.ts";
import { SvcError } from "../../base/errors.ts";
import { createClient } from "../client.ts";
import { NOBODY } from "../prompt.ts";
import type { TlsSettings } from "../profile/types.ts";
import { explainDirect, explainTunneled } from "./explain.ts";
import { openWay } from "./open.ts";
import { tcpDialer } from "./tcp.ts";

const { ignore } = requireTools({ commands: ["openssl"] });

interface Answer {
  subject?: string;
  name?: string | false;
}

/** A server that says who it was asked by and for. */
async function serve(cert: string, key: string, ca: string) {
  const server = createServer({
    cert: await Deno.readTextFile(cert),
    key: await Deno.readTextFile(key),
    ca: await Deno.readTextFile(ca),
    requestCert: true,
    rejectUnauthorized: false,
  }, (request, response) => {
    const socket = request.socket as TLSSocket;
    const name = socket.authorized ? socket.getPeerCertificate().subject?.CN : undefined;
    const subject = [name].flat()[0];
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ subject } satisfies Answer));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return {
    port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function ask(server: string, tls?: TlsSettings): Promise<Answer> {
  const signal = AbortSignal.timeout(60_000);
  await using way = await openWay({
    target: {
      server,
      source: "test",
      transport: { kind: "direct" },
      ...(tls && { tls }),
      credential: { kind: "none" },
      viaServer: { value: false, source: "default" },
      conduit: { value: "port-forward", source: "default" },
      settings: {},
    },
    env: {},
    prompt: NOBODY,
    signal,
  });
  const client = createClient({ server, way, signal });
  return await client.json("GET /openapi.json") as unknown as Answer;
}

async function refused(act: Promise<unknown>, why: RegExp, help?: RegExp): Promise<void> {
  await assert.rejects(act, (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.match(error.message, why);
    if (help) assert.match(error.help, help);
    return true;
  });
}

Deno.test({
  name: "TLS rows: ca-cert, server-name, insecure-skip-verify, client-cert, client-key",
  ignore,
}, async (t) => {
  const folder = await Deno.makeTempDir();
  try {
    const authority = await makeAuthority(folder);
    const other = await makeAuthority(folder, "other");
    const leaf = await authority.issue("svc", { names: ["DNS:svc.example", "DNS:localhost"] });
    const user = await authority.issue("alice");
    await using server = await serve(leaf.cert, leaf.key, authority.cert);
    const url = `https://localhost:${server.port}`;
    const byAddress = `https://127.0.0.1:${server.port}`;
    const ca = { "ca-cert": authority.cert };

    await t.step("ca-cert: the bundle alone is trusted", async () => {
      assert.deepEqual(await ask(url, ca), {});
      await refused(
        ask(url, { "ca-cert": other.cert }),
        /Cannot reach https:\/\/localhost:\d+: .*(certificate|issuer)/i,
        /tls\.ca-cert/,
      );
      await refused(
        ask(url, { "server-name": "localhost" }),
        /certificate|issuer/i,
        /tls\.ca-cert/,
      );
    });
    await t.step("server-name: SNI and the certificate's name", async () => {
      await refused(ask(byAddress, ca), /127\.0\.0\.1/, /tls\.server-name/);
      assert.deepEqual(await ask(byAddress, { ...ca, "server-name": "svc.example" }), {});
      await refused(
        ask(url, { ...ca, "server-name": "other.example" }),
        /other\.example/,
        /tls\.server-name/,
      );
    });
    await t.step("insecure-skip-verify", async () => {
      assert.deepEqual(await ask(byAddress, { "insecure-skip-verify": true }), {});
    });
    await t.step("client-cert and client-key", async () => {
      const tls = { ...ca, "client-cert": user.cert, "client-key": user.key };
      assert.deepEqual(await ask(url, tls), { subject: "alice" });
    });
    await t.step("an expired and a future certificate are told apart", async () => {
      const names = ["DNS:localhost"];
      const cases: [Parameters<typeof authority.issue>[1], RegExp, RegExp][] = [
        [{ names, notBefore: "20200101000000Z", notAfter: "20200201000000Z" }, /expired/i, /renew/],
        [
          { names, notBefore: "20990101000000Z", notAfter: "20990201000000Z" },
          /not (yet )?valid|not valid yet/i,
          /clock/,
        ],
      ];
      for (const [i, [options, why, help]] of cases.entries()) {
        const bad = await authority.issue(`bad${i}`, options);
        await using stale = await serve(bad.cert, bad.key, authority.cert);
        await refused(ask(`https://localhost:${stale.port}`, ca), why, help);
      }
    });
    await t.step("files that are missing or no PEM, and a server without TLS", async () => {
      await refused(
        ask(url, { "ca-cert": join(folder, "none") }),
        /Cannot read tls\.ca-cert .*there is no such file/,
      );
      await Deno.writeTextFile(join(folder, "text"), "no PEM");
      await refused(ask(url, { "ca-cert": join(folder, "text") }), /it is not PEM/);
      await using plain = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen() {} },
        () => new Response(),
      );
      await refused(ask(`https://localhost:${plain.addr.port}`, ca), /TLS/);
    });
    await t.step("no settings: fetch's one word is explained by trying the steps", async () => {
      await refused(ask(url), /Cannot reach https:\/\/localhost:\d+/);
      const explained = async (server: string, why: RegExp, help: RegExp) => {
        const error = await explainDirect(server, 60_000);
        assert.match(error!.message, why);
        assert.match(error!.help, help);
      };
      await explained(
        url,
        /Cannot reach https:\/\/localhost:\d+: .*(certificate|issuer)/i,
        /tls\.ca-cert/,
      );
      const spoken = /Cannot reach http:\/\/localhost:\d+: it speaks TLS/;
      await explained(`http://localhost:${server.port}`, spoken, /https:\/\//);
      await using plain = Deno.serve(
        { hostname: "127.0.0.1", port: 0, onListen() {} },
        () => new Response(),
      );
      const { port } = plain.addr;
      await explained(`https://localhost:${port}`, /does not speak TLS/, /http:\/\//);
      assert.equal(await explainDirect(`http://localhost:${port}`, 60_000), undefined);
      const tunneled = (end: number) =>
        explainTunneled(tcpDialer(`http://localhost:${end}`), "http://far:5000", "use TLS", 60_000);
      assert.match(
        (await tunneled(server.port))!.message,
        /reach http:\/\/far:5000: it speaks TLS/,
      );
      assert.equal(await tunneled(port), undefined);
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** What is told where TLS with a daemon fails for a certificate's sake: whose it is, and what to do. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { freePort } from "../../test/fixtures/free_port.ts";
import { EXPIRED, hasOpenssl, makeAuthority, type Pair } from "../../test/peers/pki.ts";
import { eventually } from "../../test/waits.ts";
import { DockerClient } from "./client.ts";
import { dockerEndpoint } from "./endpoint.ts";

/** A server that asks for a certificate of the authority, as dockerd does with --tlsverify. */
async function startServer(own: Pair, ca: string): Promise<AsyncDisposable & { port: number }> {
  const port = freePort();
  const child = new Deno.Command("openssl", {
    args: [
      ...["s_server", "-quiet", "-www", "-accept", `127.0.0.1:${port}`],
      ...["-cert", own.cert, "-key", own.key],
      ...["-CAfile", ca, "-Verify", "1", "-verify_return_error"],
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  await eventually("the server", async () => {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  });
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

Deno.test({
  name: "certificates that are not trusted, here or there: whose, why and what to do",
  ignore: !hasOpenssl(),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-docker-certificates-" });
    try {
      const authority = await makeAuthority(folder);
      const good = await authority.issue("good");
      const expired = await authority.issue("expired", EXPIRED);
      const named = await authority.issue("named", { names: ["DNS:elsewhere"] });
      const foreign = await (await makeAuthority(folder, "foreign")).issue("strange");
      const cases: { server: Pair; client: Pair; told: RegExp; help: RegExp }[] = [
        { server: expired, client: good, told: /: its certificate has expired$/, help: /renew/ },
        { server: named, client: good, told: /is for other names/, help: /DOCKER_HOST/ },
        { server: foreign, client: good, told: /not of the authority/, help: /ca\.pem/ },
        { server: good, client: expired, told: /this server's .* expired$/, help: /cert\.pem/ },
        { server: good, client: foreign, told: /refuses this server's/, help: /cert\.pem/ },
      ];
      for (const { server, client: own, told, help } of cases) {
        const certPath = await Deno.makeTempDir({ dir: folder });
        await Deno.copyFile(authority.cert, join(certPath, "ca.pem"));
        await Deno.copyFile(own.cert, join(certPath, "cert.pem"));
        await Deno.copyFile(own.key, join(certPath, "key.pem"));
        await using started = await startServer(server, authority.cert);
        const host = `tcp://127.0.0.1:${started.port}`;
        await using client = new DockerClient({
          endpoint: dockerEndpoint({ host, tls: true, certPath }),
        });
        await assert.rejects(client.daemon(), { code: "unavailable", message: told, help });
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test({
  name: "the files are read before the daemon is dialled: a reset meanwhile ended the process",
  ignore: !hasOpenssl(),
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-docker-certificates-" });
    const accepted: Deno.Conn[] = [];
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const serving = (async () => {
      for await (const conn of listener) {
        accepted.push(conn);
        conn.close();
      }
    })();
    try {
      const authority = await makeAuthority(folder);
      const own = await authority.issue("own");
      const [ca, cert, key] = ["ca.pem", "cert.pem", "key.pem"].map((name) => join(folder, name));
      await Deno.rename(own.cert, cert);
      await Deno.rename(own.key, key);
      const text = await Deno.readTextFile(authority.cert);
      await new Deno.Command("mkfifo", { args: [ca] }).output();
      const host = `tcp://127.0.0.1:${listener.addr.port}`;
      await using client = new DockerClient({
        endpoint: dockerEndpoint({ host, tls: true, certPath: folder }),
      });
      const asked = assert.rejects(client.daemon(), { code: "unavailable" });
      // Opens once it is read.
      using pipe = await Deno.open(ca, { write: true });
      assert.equal(accepted.length, 0);
      const writer = pipe.writable.getWriter();
      await writer.write(new TextEncoder().encode(text));
      await writer.close();
      await asked;
      assert.notEqual(accepted.length, 0);
    } finally {
      listener.close();
      await serving;
      await Deno.remove(folder, { recursive: true });
    }
  },
});

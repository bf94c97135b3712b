import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { createClient } from "../../client/client.ts";
import { type LocalIngressOptions, openLocalIngress } from "../../client/ingress_tunnel.ts";
import type { DeployBackend } from "../../deploy/backend.ts";
import { duplexPair } from "../../wire/testing.ts";
import { ServerIngress } from "../ingress/ingress.ts";
import { startTestServer } from "../testing.ts";

const encoder = new TextEncoder();

interface Scene extends AsyncDisposable {
  base: string;
  open(options?: Partial<LocalIngressOptions>): ReturnType<typeof openLocalIngress>;
  drain(): void;
  errors: SvcError[];
}

/** A server whose deployments answer with their name and the `Host` that they were sent. */
async function scene(...hosts: string[]): Promise<Scene> {
  const dial: DeployBackend["dial"] = (name) => {
    const [near, far] = duplexPair();
    void (async () => {
      const head = new TextDecoder().decode(await far.read());
      const text = `${name} ${/\r\nHost: (.*)\r\n/.exec(head)?.[1]}`;
      await far.write(
        encoder.encode(`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`),
      );
      await far.closeWrite();
    })().catch(() => {/* the test ended it */});
    return Promise.resolve(near);
  };
  const ingress = new ServerIngress({
    config: { ingressEnforceDomain: false },
    backend: () => Promise.resolve({ dial } as DeployBackend),
    log: silent,
  });
  for (const host of hosts) {
    const [deployment] = host.split(".");
    ingress.table.set(deployment, [
      { host, path: "/", pathType: "Prefix", deployment, port: 80, tls: false },
    ]);
  }
  const server = await startTestServer({ deps: { ingress } });
  const errors: SvcError[] = [];
  return {
    ...{ base: server.base, errors },
    open: (options = {}) =>
      openLocalIngress(createClient({ server: server.base }), {
        ...{ address: "127.0.0.1", port: 0, onError: (error) => void errors.push(error) },
        ...options,
      }),
    drain: () => server.lifecycle.drain(),
    async [Symbol.asyncDispose]() {
      ingress[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** Status and body of one request with this `Host`. */
async function ask(port: number, host: string): Promise<string> {
  using conn = await Deno.connect({ hostname: "127.0.0.1", port });
  await conn.write(encoder.encode(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`));
  const decoder = new TextDecoder();
  let text = "";
  const bytes = new Uint8Array(4096);
  for (let got; (got = await conn.read(bytes)) !== null;) {
    text += decoder.decode(bytes.subarray(0, got), { stream: true });
  }
  const [, status] = /^HTTP\/1\.1 (\d+)/.exec(text)!;
  return `${status} ${text.slice(text.indexOf("\r\n\r\n") + 4)}`;
}

Deno.test("ingress tunnel: a local port by each host mode", async () => {
  await using at = await scene("app.example", "api.example");
  await using passing = await at.open({ hostMode: "passthrough" });
  const answers = await Promise.all(
    ["app.example", "api.example:8080"].map((host) => ask(passing.local, host)),
  );
  assert.deepEqual(answers, ["200 app app.example", "200 api api.example:8080"]);
  assert.match(await ask(passing.local, "localhost"), /^404/);
  await using alias = await at.open({ host: "api.example" });
  assert.equal(await ask(alias.local, "localhost:1"), "200 api localhost:1");
  await using rewrite = await at.open({ hostMode: "rewrite", host: "app.example" });
  assert.equal(await ask(rewrite.local, "localhost:1"), "200 app app.example");
  assert.deepEqual(at.errors, []);
});

Deno.test("ingress tunnel: what is refused is told before anything listens", async () => {
  await using at = await scene("app.example", "api.example");
  const refused = (options: Partial<LocalIngressOptions>, message: RegExp) =>
    assert.rejects(at.open(options), message);
  await refused({}, /its public host is localhost, and declared are api\.example, app\.example/);
  await refused({ hostMode: "alias" }, /alias needs one host/);
  await refused({ host: "other.example" }, /no deployment declares the host other\.example/);
  const path = `${at.base}/.svc/v1/ingress/tunnel`;
  for (
    const [query, message] of [
      ["?hostMode=passthrough", /is not a WebSocket/],
      ["?hostMode=pass", /expected auto, passthrough, alias, rewrite/],
      ["?mode=alias", /unknown parameter/],
    ] as const
  ) {
    const answer = await fetch(path + query);
    assert.equal(answer.status, 400);
    assert.match((await answer.json()).detail, message);
  }
});

Deno.test(
  "ingress tunnel: the server's end ends the session, and the next connection is told why",
  async () => {
    await using at = await scene("app.example");
    await using local = await at.open();
    assert.equal(await ask(local.local, "x"), "200 app x");
    at.drain();
    // Until the session is known to be over a connection is let in, and cut.
    for (;;) {
      const conn = await Deno.connect({ hostname: "127.0.0.1", port: local.local });
      const ended = conn.read(new Uint8Array(1)).catch(() => null);
      assert.equal(await ended, null);
      conn.close();
      if (at.errors.some(({ code }) => code === "unavailable")) break;
    }
  },
);

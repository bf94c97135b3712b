import assert from "node:assert/strict";
import { NOBODY } from "../prompt.ts";
import type { Transport } from "../resolve.ts";
import { createProvider } from "./provider.ts";

/** Asks for the token of a context with token exchange, over this transport to the same address. */
function tokens(base: string, env: Record<string, string>) {
  const token = (transport: Transport) =>
    createProvider({
      target: {
        server: "http://127.0.0.1:5000",
        source: "test",
        transport,
        credential: { kind: "token", token: "subject", source: "test" },
        exchange: {},
        viaServer: { value: false, source: "default" },
        conduit: { value: "port-forward", source: "default" },
        settings: {},
      },
      way: {
        base,
        explain: () => undefined,
        resumes: false,
      },
      env,
      cacheMode: env.XDG_RUNTIME_DIR ? "file" : "none",
      prompt: NOBODY,
      signal: new AbortController().signal,
    }).token();
  return { token };
}

Deno.test("SVC_TOKEN_CACHE: what was minted for one host is not sent to another behind the same address", async () => {
  const folder = await Deno.makeTempDir();
  let minted = 0;
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => Response.json({ access_token: `t${++minted}`, expires_in: 3600 }),
  );
  const { token } = tokens(`http://127.0.0.1:${server.addr.port}`, { XDG_RUNTIME_DIR: folder });
  const ssh = (addr: string): Transport => ({ kind: "ssh", settings: { addr } });
  try {
    assert.equal(await token({ kind: "direct" }), "t1");
    assert.equal(await token(ssh("a")), "t2");
    assert.equal(await token(ssh("b")), "t3");
    assert.equal(await token({ kind: "kube", settings: { service: "s" } }), "t4");
    assert.equal(await token(ssh("a")), "t2");
    assert.equal(await token({ kind: "direct" }), "t1");
  } finally {
    await server.shutdown();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("token-exchange: a server without an exchange endpoint gets the credential itself", async () => {
  for (const status of [404, 405, 501]) {
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      () => new Response(null, { status }),
    );
    try {
      const { token } = tokens(`http://127.0.0.1:${server.addr.port}`, {});
      assert.equal(await token({ kind: "direct" }), "subject");
    } finally {
      await server.shutdown();
    }
  }
});

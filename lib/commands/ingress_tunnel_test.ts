import assert from "node:assert/strict";
import { join } from "node:path";
import type { TunnelBody } from "../api/tunnel.ts";
import { ndjson, svcFake } from "../../test/fixtures/cli.ts";

const OPENED = {
  type: "opened",
  tunnel: {
    id: "t1",
    url: "http://public.example",
    ingress: { hostMode: "alias", host: "a.example" },
  },
};

/** What the server is asked for. */
async function ingressTunnel(args: string[], config: unknown = {}) {
  const bodies: TunnelBody[] = [];
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "config.json");
    const profile = { "current-context": "t", contexts: { t: config } };
    await Deno.writeTextFile(file, JSON.stringify(profile), { mode: 0o600 });
    const result = await svcFake(["ingress-tunnel", ...args], {
      env: { SVC_CONFIG: file, HOME: folder },
      async handler(request) {
        bodies.push(await request.json());
        return ndjson(OPENED, { type: "closed" });
      },
    });
    return { ...result, bodies };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("tunnel.ingress-host-mode: the default of --host-mode; the flag wins", async () => {
  const config = { tunnel: { "ingress-host-mode": "rewrite" } };
  const rows: [string[], unknown, TunnelBody][] = [
    [[], {}, { ingress: {} }],
    [[], config, { ingress: { hostMode: "rewrite" } }],
    [["--host-mode", "alias"], config, { ingress: { hostMode: "alias" } }],
    [["--host", "a.example", "--backend", "ssh"], {}, {
      ingress: { host: "a.example" },
      backend: "ssh",
    }],
    [["--authtoken", "token-of-mine"], {}, { ingress: {}, credential: "token-of-mine" }],
  ];
  for (const [args, context, body] of rows) {
    const { code, stdout, stderr, bodies } = await ingressTunnel(args, context);
    assert.equal(code, 0, stderr);
    assert.equal(stdout, "http://public.example\n");
    assert.deepEqual(bodies, [body]);
    assert.doesNotMatch(stderr, /no effect|token-of-mine/);
  }
});

Deno.test("svc ingress-tunnel: words that are no host mode, no address", async () => {
  const wrong = await ingressTunnel(["--host-mode", "aliass"]);
  assert.equal(wrong.code, 2);
  assert.match(
    wrong.stderr,
    /--host-mode: "aliass" is not one of auto, passthrough, alias, rewrite/,
  );
  for (const text of ["x", "1.2.3.4", "a b:1", ":99999"]) {
    const { code, stderr } = await ingressTunnel(["--local", text]);
    assert.equal(code, 2);
    assert.match(stderr, /Cannot read --local/);
  }
});

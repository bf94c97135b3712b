import assert from "node:assert/strict";
import { duplexPair } from "../wire/testing.ts";
import { credentialEndpoint } from "./endpoint.ts";
import { serveCredentials } from "./serve.ts";
import { throughCaller, upstreamUrl } from "./upstream.ts";

const SECRET = "s3cret";

/** An API that tells what came, at its path /v1. */
function api() {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    if (pathname === "/v1/moved") {
      return new Response(null, { status: 302, headers: { location: "http://127.0.0.1:1/" } });
    }
    const told = {
      ...{ method: request.method, path: pathname + search, body: await request.text() },
      headers: Object.fromEntries(request.headers),
    };
    return Response.json(told, { status: 201, headers: { "x-told": "yes" } });
  });
  return {
    upstream: `http://127.0.0.1:${server.addr.port}/v1`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** What a workload is answered by its endpoint, the server in between and the caller. */
function endpointFor(upstream: string, more: { values?: Record<string, string> } = {}) {
  const handler = serveCredentials({
    sources: new Map([["c", {
      get: () => Promise.resolve({ values: more.values ?? { token: SECRET } }),
    }]]),
    upstreams: [{ kind: "proxy", source: "c", upstream, header: "authorization", bearer: true }],
    notice: () => {},
    signal: new AbortController().signal,
  });
  const endpoint = credentialEndpoint({
    deliveries: [],
    get: () => Promise.reject(new Error("nobody asks for values")),
    upstreams: [{ kind: "proxy", source: "c", upstream, header: "authorization", bearer: true }],
    send: async (name, request, path) => {
      const [near, far] = duplexPair();
      void Promise.resolve(handler(far as never, { name, upstream: true })).catch(() =>
        far.reset()
      );
      return await throughCaller(near, request, path, request.signal);
    },
  });
  return (path: string, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    headers.set("host", "127.0.0.1:4170");
    return endpoint(new Request(`http://127.0.0.1:4170${path}`, { ...init, headers }));
  };
}

Deno.test("upstream: the caller adds the credential, in the workload's own field's place", async () => {
  await using one = api();
  const ask = endpointFor(one.upstream);
  const answer = await ask("/upstream/c/repos?page=2", {
    method: "POST",
    body: "some words",
    headers: {
      ...{ authorization: "Bearer of-the-workload", "x-mine": "1", "proxy-authorization": "x" },
      ...{ connection: "x-between", "x-between": "1" },
    },
  });
  assert.equal(answer.status, 201);
  assert.equal(answer.headers.get("x-told"), "yes");
  const { method, path, body, headers } = await answer.json();
  assert.deepEqual([method, path, body], ["POST", "/v1/repos?page=2", "some words"]);
  assert.equal(headers.authorization, `Bearer ${SECRET}`);
  assert.equal(headers["x-mine"], "1");
  assert.ok(!("proxy-authorization" in headers) && !("x-between" in headers));
  assert.equal((await (await ask("/upstream/c")).json()).path, "/v1/");
});

Deno.test("upstream: a redirection is the workload's to follow, without the credential", async () => {
  await using one = api();
  const answer = await endpointFor(one.upstream)("/upstream/c/moved");
  assert.equal(answer.status, 302);
  assert.equal(answer.headers.get("location"), "http://127.0.0.1:1/");
  assert.ok(!JSON.stringify([...answer.headers]).includes(SECRET));
});

Deno.test("upstream: no path leads out of it, and other names are none", async () => {
  await using one = api();
  const ask = endpointFor(one.upstream);
  assert.equal((await ask("/upstream/other/x")).status, 404);
  // The server's own reading of a path takes `..` out: a server that does not is refused by the caller.
  for (const path of ["/../x", "/..", "/%2e%2e/x", "/a/../../x", "\\..\\x", "@evil.test/", "x"]) {
    assert.throws(() => upstreamUrl(one.upstream, path), { code: "denied" }, path);
  }
  assert.throws(() => upstreamUrl("https://api.test", "@evil.test/"), { code: "denied" });
  assert.throws(() => upstreamUrl("https://api.test", ".evil.test/"), { code: "denied" });
  assert.equal(
    upstreamUrl("https://api.test/v1", "/a//b?c=../d").href,
    "https://api.test/v1/a//b?c=../d",
  );
});

Deno.test("upstream: failures are told without the credential", async () => {
  const away = await endpointFor("http://127.0.0.1:1")("/upstream/c/x");
  assert.equal(away.status, 503);
  assert.match((await away.json()).message, /127\.0\.0\.1:1 is not reached from the caller/);
  await using one = api();
  const several = await endpointFor(one.upstream, { values: { a: SECRET, b: SECRET } })(
    "/upstream/c/x",
  );
  assert.equal(several.status, 503);
  assert.ok(!(await several.text()).includes(SECRET));
  const broken = await endpointFor(one.upstream, { values: { token: `${SECRET}\nx` } })(
    "/upstream/c/x",
  );
  assert.equal(broken.status, 503);
  assert.ok(!(await broken.text()).includes(SECRET));
});

import assert from "node:assert/strict";
import type { BuildResult } from "../../api/build.ts";
import { CONTEXT_EXPORT } from "../../api/build_session.ts";
import { LOGINS_HEADER, loginsHeader } from "../../api/build_logins.ts";
import { ConfiguredAccess } from "../../auth/access.ts";
import { Authenticator } from "../../auth/authenticator.ts";
import { InstallationSecret } from "../../auth/installation_secret.ts";
import { InternalCredentials } from "../../auth/internal.ts";
import { staticToken } from "../../auth/static_token.ts";
import { SvcError } from "../../base/errors.ts";
import type { BuildRequest } from "../../build/builder.ts";
import { parseIgnore } from "../../build/parse/ignore.ts";
import { exportFolder } from "../../client/build_export.ts";
import { openBuildSession } from "../../client/build_session.ts";
import { createClient } from "../../client/client.ts";
import { freePort } from "../../../test/fixtures/free_port.ts";
import { openAccess } from "../access.ts";
import type { DelegationOptions } from "../delegation.ts";
import {
  collect,
  jsonLines,
  startTestServer,
  testDelegation as delegation,
  type TestOptions,
} from "../testing.ts";

const RESULT: BuildResult = {
  digest: "sha256:1",
  imageId: "sha256:2",
  names: [],
  size: 1,
  ran: 1,
  cached: 0,
  durationMs: 5,
};

const ws = (base: string) => base.replace(/^http/, "ws");

/** A server that builds nothing itself, in front of one that does. */
async function chain(builder: NonNullable<TestOptions["builder"]>, deps: TestOptions["deps"] = {}) {
  const back = await startTestServer({ builder });
  const front = await startTestServer({
    deps: { delegation: delegation({ url: ws(back.base) }), ...deps },
  });
  return {
    base: front.base,
    back,
    async [Symbol.asyncDispose]() {
      await front[Symbol.asyncDispose]();
      await back[Symbol.asyncDispose]();
    },
  };
}

const post = (base: string, query: string, body: BodyInit, headers = {}) =>
  fetch(`${base}/.svc/v1/build${query}`, { method: "POST", body, headers });

Deno.test("relay: POST goes on with its query and body, the answer comes back as it is", async () => {
  const seen: unknown[] = [];
  const bytes = crypto.getRandomValues(new Uint8Array(60_000));
  await using at = await chain(async ({ context, tags, buildArgs }, { onEvent }) => {
    assert.ok(context instanceof ReadableStream);
    const body = new Uint8Array(
      await new Response(context as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(),
    );
    seen.push(tags, buildArgs, body);
    onEvent({ type: "start", id: "a", time: "t" });
    return RESULT;
  });
  const response = await post(at.base, "?t=a:v1&buildarg=A=1%3D2%20x", bytes);
  assert.equal(response.headers.get("content-type"), "application/x-ndjson");
  assert.deepEqual(await collect(jsonLines(response)), [
    { type: "start", id: "a", time: "t" },
    { type: "result", result: RESULT },
  ]);
  assert.deepEqual(seen, [["a:v1"], { A: "1=2 x" }, bytes]);
  const streamed = await post(at.base, "", ReadableStream.from([bytes, bytes]));
  assert.equal((await collect(jsonLines(streamed))).length, 2);
  const refused = await post(at.base, "?tag=x", bytes);
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).detail, /unknown parameter "tag"/);
});

Deno.test("relay: a session goes on byte for byte", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-relay-" });
  const large = crypto.getRandomValues(new Uint8Array(50_000));
  const content = new Uint8Array(60 * large.length).map((_, index) => large[index % large.length]);
  await Deno.writeFile(`${folder}/large`, content);
  let read = new Uint8Array();
  await using at = await chain(async ({ context, secrets }, { onEvent, signal }) => {
    assert.ok(!(context instanceof ReadableStream));
    const parts: Uint8Array<ArrayBuffer>[] = [];
    for (const entry of (await Array.fromAsync(context.tree.entries(signal!))).flat()) {
      for await (const chunk of context.tree.read(entry.path, entry.size, signal!)) {
        parts.push(chunk.slice());
      }
    }
    read = new Uint8Array(await new Blob(parts).arrayBuffer());
    const secret = await secrets!.get("s", signal!);
    onEvent({ type: "warning", message: new TextDecoder().decode(secret) });
    return RESULT;
  });
  try {
    using context = await exportFolder({ root: folder, ignore: parseIgnore(""), onSkip: () => {} });
    const session = await openBuildSession(createClient({ server: at.base }), {
      folders: new Map([[CONTEXT_EXPORT, context]]),
      secrets: new Map([["s", () => Promise.resolve(new TextEncoder().encode("hush"))]]),
      agents: new Map(),
      signal: new AbortController().signal,
    });
    const events = await collect(session.build({
      query: "",
      context: { kind: "folder", identity: "i", dockerfile: "", ignore: "" },
      secrets: ["s"],
    }));
    assert.deepEqual(events, [
      { type: "warning", message: "hush" },
      { type: "result", result: RESULT },
    ]);
    assert.deepEqual(read, content);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("relay: a builder gets a credential for this server's registry, and the caller's logins", async () => {
  const internal = new InternalCredentials(new InstallationSecret("of the relay's test"));
  const seen: BuildRequest["logins"][] = [];
  const registries: BuildRequest["registry"][] = [];
  await using at = await chain(({ logins, registry }) => {
    seen.push(logins);
    registries.push(registry);
    return Promise.resolve(RESULT);
  }, { internal, registryHost: () => "https://images.example" });
  const mine = { username: "me", password: "mine" };
  const header = { [LOGINS_HEADER]: loginsHeader({ "other.example": mine }) };
  await collect(jsonLines(await post(at.base, "", new Uint8Array(1), header)));
  const session = await openBuildSession(createClient({ server: at.base }), {
    folders: new Map(),
    secrets: new Map(),
    agents: new Map(),
    signal: new AbortController().signal,
  });
  await collect(session.build({
    query: "",
    context: { kind: "folder", identity: "i", dockerfile: "", ignore: "" },
    logins: { "other.example": mine },
  }));
  assert.equal(seen.length, 2);
  assert.deepEqual(registries, ["images.example", "images.example"]);
  const own = { username: "svc", password: internal.token("push") };
  const asked = new URL(at.base).host;
  for (const logins of seen) {
    assert.deepEqual(Object.fromEntries(logins!), {
      "images.example": own,
      [asked]: own,
      "other.example": mine,
    });
  }
});

Deno.test("relay: a caller that names another host does not have the server's credential sent there", async () => {
  const internal = new InternalCredentials(new InstallationSecret("of the relay's test"));
  const seen: string[][] = [];
  await using at = await chain(({ logins }) => {
    seen.push([...logins!.keys()]);
    return Promise.resolve(RESULT);
  }, { internal });
  const { hostname, port } = new URL(at.base);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const head = ["POST /.svc/v1/build HTTP/1.1", "host: thief.example", "content-length: 1"];
  const more = ["connection: close", "", "x"];
  await connection.write(new TextEncoder().encode([...head, ...more].join("\r\n")));
  assert.match(await new Response(connection.readable).text(), /"result"/);
  assert.deepEqual(seen, [["localhost:5000"]]);
});

Deno.test("relay: either side that goes away takes the other along", async () => {
  const begun = Promise.withResolvers<AbortSignal>();
  await using at = await chain(async (_request, { signal }) => {
    begun.resolve(signal!);
    await new Promise((_, reject) =>
      signal!.addEventListener("abort", () => reject(signal!.reason))
    );
    return RESULT;
  });
  const leaving = new AbortController();
  const session = await openBuildSession(createClient({ server: at.base }), {
    folders: new Map(),
    secrets: new Map(),
    agents: new Map(),
    signal: leaving.signal,
  });
  const events = collect(session.build({
    query: "",
    context: { kind: "folder", identity: "i", dockerfile: "", ignore: "" },
  }));
  const signal = await begun.promise;
  const aborted = new Promise((resolve) => signal.addEventListener("abort", resolve));
  leaving.abort(new SvcError("cancelled", "interrupted"));
  await assert.rejects(events, /interrupted/);
  await aborted;
});

Deno.test("relay: authorization comes first", async () => {
  let builds = 0;
  await using at = await chain(() => {
    builds++;
    return Promise.resolve(RESULT);
  }, {
    access: {
      ...openAccess,
      authorize: ({ action }) => {
        if (action === "build") throw new SvcError("denied", "Cannot build: not allowed");
      },
    },
  });
  for (const method of ["GET", "POST"]) {
    const path = method === "GET" ? "build/attach" : "build";
    const response = await fetch(`${at.base}/.svc/v1/${path}`, {
      method,
      ...method === "POST" && { body: "x" },
    });
    assert.equal(response.status, 403, method);
    await response.body?.cancel();
  }
  assert.equal(builds, 0);
});

Deno.test("relay: a context beyond the limit is refused by the server that was asked", async () => {
  await using at = await chain(async ({ context }) => {
    await new Response(context as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer();
    return RESULT;
  }, { limits: { buildConcurrency: 1, maxBuildContextBytes: 1000 } });
  for (
    const body of [
      new Uint8Array(2000),
      ReadableStream.from([new Uint8Array(600), new Uint8Array(600)]),
    ]
  ) {
    const response = await post(at.base, "", body);
    assert.equal(response.status, 413);
    await response.body?.cancel();
  }
});

Deno.test("relay: a builder that is not there is told, and asked for again", async () => {
  const port = freePort();
  let starts = 0;
  const start = () => Promise.resolve({ url: `ws://127.0.0.1:${port}/${++starts}`, token: "t" });
  const container = () => Promise.resolve({ start, ready: () => Promise.resolve() });
  await using front = await startTestServer({ deps: { delegation: delegation({ container }) } });
  const response = await post(front.base, "", "x");
  assert.equal(response.status, 502);
  assert.match((await response.json()).detail, /the builder at 127\.0\.0\.1:\d+ does not answer/);
  const attach = await fetch(`${front.base}/.svc/v1/build/attach`);
  assert.equal(attach.status, 502);
  await attach.body?.cancel();
  assert.equal(starts, 2);
});

Deno.test("relay: a builder that asks for a credential gets this server's own; its refusal blames no caller", async () => {
  const authenticator = new Authenticator({
    verifiers: [staticToken("the%builder/token")],
    methods: ["token"],
  });
  await using back = await startTestServer({
    deps: { access: new ConfiguredAccess({ authenticator }) },
    builder: async ({ context }) => {
      await new Response(context as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer();
      return RESULT;
    },
  });
  const { host } = new URL(back.base);
  const front = (options: Partial<DelegationOptions>) =>
    startTestServer({ deps: { delegation: delegation(options) } });
  const token = "the%builder/token";
  const good = [
    { url: `ws://${host}`, token },
    { url: `ws://any:${encodeURIComponent(token)}@${host}` },
    { url: `ws://${encodeURIComponent(token)}@${host}` },
    { url: `ws://any:other@${host}`, token },
  ];
  for (const options of good) {
    await using server = await front(options);
    const response = await post(server.base, "", "x");
    assert.equal(response.status, 200);
    assert.deepEqual(await collect(jsonLines(response)), [{ type: "result", result: RESULT }]);
  }
  const bad = [{ url: `ws://${host}` }, { url: `ws://${host}`, token: "other" }];
  for (const options of bad) {
    await using server = await front(options);
    const upgrade = { headers: { upgrade: "websocket", connection: "upgrade" } };
    for (const init of [{ method: "POST", body: "x" }, upgrade]) {
      const path = "body" in init ? "build" : "build/attach";
      const response = await fetch(`${server.base}/.svc/v1/${path}`, {
        ...init,
        headers: { ...("headers" in init && init.headers), authorization: "Bearer of-the-caller" },
      });
      assert.equal(response.status, 502);
      const { detail, help } = await response.json();
      assert(
        detail.startsWith(`Cannot build: the builder at ${host} asks this server for a credential`),
      );
      assert.match(help, /SVC_BUILDER_TOKEN/);
      assert(!detail.includes("other"));
    }
  }
  const narrow = new Authenticator({
    verifiers: [{
      verify: () => ({ identity: { subject: "front", scopes: ["registry:pull"], method: "jwt" } }),
    }],
    methods: ["jwt"],
  });
  await using strict = await startTestServer({
    deps: { access: new ConfiguredAccess({ authenticator: narrow }) },
  });
  await using server = await front({ url: strict.base.replace("http", "ws"), token: "x" });
  const response = await post(server.base, "", "x");
  assert.equal(response.status, 502);
  assert.match(
    (await response.json()).detail,
    /does not let this server build: .*lacks the scope api/,
  );
});

Deno.test("relay: a builder is told whose cache mounts they are, where a policy tells callers apart", async () => {
  const owners: (string | undefined)[] = [];
  const builder = ({ caller }: BuildRequest) => {
    owners.push(caller?.cacheOwner);
    return Promise.resolve(RESULT);
  };
  for (const perIdentity of [false, true]) {
    await using at = await chain(builder, {
      access: {
        ...openAccess,
        perIdentity,
        authenticate: () => ({ subject: "alice", method: "jwt", scopes: ["api"] }),
      },
    });
    await collect(jsonLines(await post(at.base, "", new Uint8Array(1))));
    const session = await openBuildSession(createClient({ server: at.base }), {
      folders: new Map(),
      secrets: new Map(),
      agents: new Map(),
      signal: new AbortController().signal,
    });
    await collect(session.build({
      query: "",
      context: { kind: "folder", identity: "i", dockerfile: "", ignore: "" },
    }));
  }
  assert.deepEqual(owners, [undefined, undefined, "jwt%20alice", "jwt%20alice"]);
});

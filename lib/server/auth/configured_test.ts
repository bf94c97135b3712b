/** Options in, requests answered: everything but the executable. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import {
  type ChallengeResponse,
  type EnrolledKey,
  type KeyList,
  type SessionResponse,
  TOKEN_EXCHANGE,
  type TokenExchangeResponse,
} from "../../api/auth.ts";
import type { WellKnown } from "../../api/info.ts";
import type { Action } from "../../api/route.ts";
import { sshSign, testKey } from "../../auth/ssh/testing.ts";
import { createLogger } from "../../base/log.ts";
import { loadServerConfig } from "../../config/server_options.ts";
import { openServerAuth } from "../auth.ts";
import type { Route } from "../route.ts";
import { startTestServer } from "../testing.ts";

interface TestServer extends AsyncDisposable {
  base: string;
  dataDir: string;
  /** Everything that was logged. */
  log(): string;
  call(method: string, path: string, options?: CallOptions): Promise<Response>;
  status(method: string, path: string, options?: CallOptions): Promise<number>;
}

interface CallOptions {
  token?: string;
  basic?: string;
  body?: BodyInit;
}

const row = (method: Route["method"], path: string, action?: Action): Route => ({
  method,
  path,
  action,
  help: "",
  handler: ({ identity }) => Response.json({ subject: identity.subject }),
});

async function start(env: Record<string, string>, dataDir?: string): Promise<TestServer> {
  const folder = dataDir ?? await Deno.makeTempDir();
  const lines: string[] = [];
  const log = createLogger({ level: "debug", format: "json", write: (line) => lines.push(line) });
  const { config } = loadServerConfig([], env);
  const auth = await openServerAuth({ config, dataDir: folder, log });
  const server = await startTestServer({
    deps: { access: auth.access },
    log,
    routes: [
      ...auth.routes,
      row("GET", "/v2/", "pull"),
      row("GET", "/v2/{name+}/manifests/{reference}", "pull"),
      row("PUT", "/v2/{name+}/manifests/{reference}", "push"),
      row("POST", "/x/deploy", "deploy"),
    ],
  });
  const call: TestServer["call"] = (method, path, { token, basic, body } = {}) => {
    const authorization = token ? `Bearer ${token}` : basic && `Basic ${btoa(basic)}`;
    return fetch(server.base + path, {
      method,
      body,
      headers: authorization ? { authorization } : {},
    });
  };
  return {
    base: server.base,
    dataDir: folder,
    log: () => lines.join("\n"),
    call,
    status: async (...args) => {
      const response = await call(...args);
      await response.body?.cancel();
      return response.status;
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await auth[Symbol.asyncDispose]();
      if (dataDir === undefined) await Deno.remove(folder, { recursive: true });
    },
  };
}

const INFO = "/.svc/v1/info";
const AUTH = "/.svc/v1/auth";

Deno.test("auth: nothing configured asks for nothing and leaves nothing", async () => {
  await using server = await start({});
  assert.equal(await server.status("GET", INFO), 200);
  assert.equal(await server.status("PUT", "/v2/a/manifests/b"), 200);
  assert.equal(await server.status("POST", `${AUTH}/challenge`), 404);
  assert.deepEqual([...Deno.readDirSync(server.dataDir)], []);
  const { auth } = await (await server.call("GET", "/.well-known/svc")).json() as WellKnown;
  assert.deepEqual(auth, []);
});

Deno.test("auth: the static token, its challenges, and what stays open", async () => {
  await using server = await start({ SVC_AUTH_TOKEN: "the-token" });
  for (const path of ["/healthz", "/readyz", "/.well-known/svc"]) {
    assert.equal(await server.status("GET", path), 200);
  }
  const refused = await server.call("GET", INFO);
  assert.equal(refused.status, 401);
  assert.equal(refused.headers.get("www-authenticate"), 'Bearer realm="svc"');
  assert.equal((await refused.json()).code, "unauthorized");
  const registry = await server.call("GET", "/v2/");
  assert.equal(registry.headers.get("www-authenticate"), 'Basic realm="svc"');
  assert.equal((await registry.json()).errors[0].code, "UNAUTHORIZED");
  assert.equal(await server.status("GET", "/v2/", { basic: "me:the-token" }), 200);
  assert.equal(await server.status("GET", "/v2/", { basic: "me:the-tokem" }), 401);
  for (const size of [8000, 15_000, 40_000, 200_000]) {
    const status = await server.status("GET", INFO, { token: "x".repeat(size) }).catch(() => 431);
    assert(status === 401 || status === 431, `${size}: ${status}`);
  }
  assert.equal(await server.status("GET", INFO, { token: "the-token" }), 200);
  const info = await (await server.call("GET", INFO, { token: "the-token" })).json();
  assert.equal(info.identity.subject, "token");
  assert.doesNotMatch(server.log(), /the-toke/);
});

Deno.test("auth: anonymous pulls, and tokens for those who log in", async () => {
  await using server = await start({
    SVC_AUTH_TOKEN: "the-token",
    SVC_REGISTRY_ANONYMOUS_PULL: "on",
  });
  assert.equal(await server.status("GET", "/v2/a/manifests/b"), 200);
  assert.equal(await server.status("GET", INFO), 401);
  const ping = await server.call("GET", "/v2/");
  await ping.body?.cancel();
  const challenge = ping.headers.get("www-authenticate")!;
  const realm = /^Bearer realm="([^"]+)",service="svc"$/.exec(challenge)![1].replace(
    server.base,
    "",
  );
  const fetchToken = async (basic?: string): Promise<string> =>
    (await (await server.call("GET", realm, { basic })).json()).token;
  const nobody = await fetchToken();
  assert.equal(await server.status("GET", "/v2/", { token: nobody }), 200);
  assert.equal(await server.status("PUT", "/v2/a/manifests/b", { token: nobody }), 401);
  const somebody = await fetchToken("me:the-token");
  assert.equal(await server.status("PUT", "/v2/a/manifests/b", { token: somebody }), 200);
  assert.equal(await server.status("GET", INFO, { token: somebody }), 403);
  assert.equal(await server.status("GET", realm, { basic: "me:wrong" }), 401);
  assert(!server.log().includes(somebody) && !server.log().includes("the-token"));
});

Deno.test("auth: a policy, inline and from a file; a pull rule closes anonymous pulls", async () => {
  const rules = { rules: [{ subjects: "token", actions: ["push", "pull"] }] };
  await using server = await start({
    SVC_AUTH_TOKEN: "the-token",
    SVC_REGISTRY_ANONYMOUS_PULL: "on",
    SVC_API_POLICY: JSON.stringify(rules),
  });
  const token = "the-token";
  assert.match(server.log(), /SVC_REGISTRY_ANONYMOUS_PULL has no effect/);
  assert.equal(await server.status("GET", "/v2/a/manifests/b"), 401);
  assert.equal(await server.status("GET", "/v2/a/manifests/b", { token }), 200);
  const denied = await server.call("POST", "/x/deploy", { token });
  assert.equal(denied.status, 403);
  assert.match((await denied.json()).detail, /no rule allows "token" to deploy/);
  const path = `${server.dataDir}/policy.yaml`;
  await Deno.writeTextFile(path, "rules: [{subjects: '*', actions: deploy}]");
  await using filed = await start({ SVC_AUTH_TOKEN: "the-token", SVC_API_POLICY: path });
  assert.equal(await filed.status("POST", "/x/deploy", { token }), 200);
  for (const bad of ["{", "/nonexistent/policy", "rules:\n  - {}\n"]) {
    await assert.rejects(start({ SVC_API_POLICY: bad }), /SVC_API_POLICY/);
  }
  await using nobody = await start({ SVC_API_POLICY: JSON.stringify(rules) });
  assert.equal(await nobody.status("POST", "/x/deploy"), 403);
  assert.equal(await nobody.status("GET", INFO), 200);
});

const jsonBody = (value: unknown): CallOptions => ({ body: JSON.stringify(value) });

Deno.test("auth: sessions with SSH keys, enrolled by whoever may", async () => {
  const admin = testKey("ed25519");
  const worker = testKey(256);
  const policy = {
    rules: [
      { subjects: "admin", methods: ["ssh-key"], actions: "*" },
      { subjects: "worker", actions: "build" },
    ],
  };
  await using server = await start({
    SVC_AUTHORIZED_KEYS: `# ours\n${admin.line} admin\n`,
    SVC_API_POLICY: JSON.stringify(policy),
  });
  const known = await (await server.call("GET", "/.well-known/svc")).json() as WellKnown;
  assert.deepEqual(known.auth, ["ssh-key"]);
  const { challenge: challengePath, session, namespace } = known.keyAuth!;
  const login = async (key: typeof admin, fingerprint: string): Promise<SessionResponse> => {
    const { challenge } = await (await server.call(
      "POST",
      challengePath,
      jsonBody({ fingerprint }),
    )).json() as ChallengeResponse;
    const signature = sshSign(key, namespace, challenge);
    const response = await server.call("POST", session, jsonBody({ challenge, signature }));
    assert.equal(response.status, 201);
    return await response.json();
  };
  const { createHash } = await import("node:crypto");
  const fingerprint = (key: typeof admin) =>
    `SHA256:${createHash("sha256").update(key.blob).digest("base64").replace(/=+$/, "")}`;
  const { token, subject } = await login(admin, fingerprint(admin));
  assert.equal(subject, "admin");
  assert.equal(await server.status("POST", "/x/deploy", { token }), 200);
  assert.equal(await server.status("GET", "/v2/", { basic: `x:${token}` }), 200);

  const added = await server.call("POST", `${AUTH}/keys`, {
    token,
    body: JSON.stringify({ publicKey: `${worker.line} worker` }),
  });
  assert.equal(added.status, 201);
  const enrolled = await added.json() as EnrolledKey;
  assert.equal(enrolled.fingerprint, fingerprint(worker));
  const mine = await login(worker, enrolled.fingerprint);
  assert.equal(await server.status("POST", "/x/deploy", { token: mine.token }), 403);
  const body = JSON.stringify({ publicKey: testKey("ed25519").line, name: "admin" });
  assert.equal(await server.status("POST", `${AUTH}/keys`, { token: mine.token, body }), 403);
  const list = await (await server.call("GET", `${AUTH}/keys`, { token })).json() as KeyList;
  assert.deepEqual(list.keys.map(({ name, source }) => [name, source]), [
    ["admin", "declared"],
    ["worker", "enrolled"],
  ]);
  const path = `${AUTH}/keys/${encodeURIComponent(enrolled.fingerprint)}`;
  assert.equal(await server.status("GET", `${AUTH}/keys`), 401);
  assert.equal(await server.status("DELETE", path, { token }), 204);
  assert.equal(await server.status("GET", INFO, { token: mine.token }), 401);
  assert.equal(
    await server.status("DELETE", `${AUTH}/keys/${encodeURIComponent(fingerprint(admin))}`, {
      token,
    }),
    409,
  );
  for (const bad of ["", "{", "[]", '{"fingerprint":1}', '{"fingerprint":"x","more":"y"}']) {
    assert.equal(await server.status("POST", challengePath, { body: bad }), 400, bad);
  }
  assert.equal(await server.status("POST", session, { body: "x".repeat(100_000) }), 413);
  assert(!server.log().includes(token) && !server.log().includes(mine.token));
});

Deno.test("auth: the keystore's modes", async () => {
  const key = testKey("ed25519").line;
  const enrolment = async (env: Record<string, string>, dataDir?: string) => {
    await using server = await start(env, dataDir);
    const known = await (await server.call("GET", "/.well-known/svc")).json() as WellKnown;
    if (!known.keyAuth) return "off";
    if (!known.auth.includes("token")) return "on";
    const list = await server.call("GET", `${AUTH}/keys`, { token: "t" });
    return ((await list.json()) as KeyList).enrolment ? "file" : "declared";
  };
  const token = { SVC_AUTH_TOKEN: "t" };
  assert.equal(await enrolment(token), "off");
  assert.equal(await enrolment({ ...token, SVC_AUTHORIZED_KEYS: key }), "file");
  assert.equal(
    await enrolment({ ...token, SVC_AUTHORIZED_KEYS: key, SVC_AUTH_KEYSTORE: "none" }),
    "declared",
  );
  assert.equal(await enrolment({ ...token, SVC_AUTH_KEYSTORE: "file" }), "file");
  assert.equal(await enrolment({ SVC_AUTH_KEYSTORE: "file" }), "on");
  assert.equal(await enrolment({ ...token, SVC_AUTH_KEYSTORE: "none" }), "off");
  const dataDir = await Deno.makeTempDir();
  await Deno.mkdir(`${dataDir}/auth`);
  await Deno.writeTextFile(`${dataDir}/auth/authorized_keys`, "");
  assert.equal(await enrolment({}, dataDir), "on");
  assert.equal(await enrolment({ SVC_AUTH_KEYSTORE: "none" }, dataDir), "off");
  await Deno.remove(dataDir, { recursive: true });
  await assert.rejects(start({ SVC_AUTHORIZED_KEYS: "ssh-rsa x" }), /SVC_AUTHORIZED_KEYS: line 1/);
});

Deno.test("auth: a CI job's token becomes a short-lived one of ours, and never more than that", async () => {
  const issuer = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const iss = "https://ci.example";
  await using jwks = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    () => Response.json({ keys: [{ ...issuer.publicKey.export({ format: "jwk" }), kid: "1" }] }),
  );
  const folder = await Deno.makeTempDir();
  const map = `${folder}/map.yaml`;
  await Deno.writeTextFile(
    map,
    `rules:
  - claims: { repository: "org/*", ref: refs/heads/main }
    scope: registry:push
    subject: "ci:{repository}"
`,
  );
  const env = {
    SVC_JWT_JWKS_URL: `http://127.0.0.1:${jwks.addr.port}/jwks`,
    SVC_JWT_ISSUER: iss,
    SVC_JWT_AUDIENCE: "svc",
    SVC_JWT_SCOPE_MAP: map,
  };
  await using server = await start(env);
  const { tokenEndpoint } = await (await server.call("GET", "/.well-known/svc"))
    .json() as WellKnown;
  const jobToken = (claims: Record<string, unknown>) =>
    new SignJWT({ sub: "repo:org/app", iss, aud: "svc", ...claims })
      .setProtectedHeader({ alg: "ES256", kid: "1" }).setExpirationTime("5m").sign(
        issuer.privateKey,
      );
  const exchange = async (subject_token: string, more: Record<string, string> = {}) => {
    const form = new URLSearchParams({
      grant_type: TOKEN_EXCHANGE.grantType,
      subject_token_type: TOKEN_EXCHANGE.jwt,
      subject_token,
      ...more,
    });
    const response = await server.call("POST", tokenEndpoint!, { body: form });
    return { status: response.status, body: await response.json() };
  };
  const job = await jobToken({ repository: "org/app", ref: "refs/heads/main" });
  const { status, body } = await exchange(job);
  assert.equal(status, 200);
  const { access_token: token, scope, expires_in } = body as TokenExchangeResponse;
  assert.deepEqual([scope, expires_in], ["registry:push", 3600]);
  assert.equal(await server.status("PUT", "/v2/a/manifests/b", { token }), 200);
  const who = await server.call("GET", "/v2/a/manifests/b", { basic: `ci:${token}` });
  assert.equal((await who.json()).subject, "ci:org/app");
  assert.equal(await server.status("GET", INFO, { token }), 403);
  const narrow = await exchange(job, { scope: "registry:pull" });
  assert.equal(narrow.body.scope, "registry:pull");
  const reader = narrow.body.access_token;
  assert.equal(await server.status("PUT", "/v2/a/manifests/b", { token: reader }), 403);

  const stranger = await jobToken({ repository: "other/app", ref: "refs/heads/main" });
  const cases: [Awaited<ReturnType<typeof exchange>>, string][] = [
    [await exchange(job, { scope: "api" }), "invalid_scope"],
    [await exchange(job, { scope: "registry:pull api" }), "invalid_scope"],
    [await exchange(job, { scope: "nonsense" }), "invalid_scope"],
    [await exchange(stranger), "invalid_scope"],
    [await exchange(`${job}x`), "invalid_request"],
    [await exchange("opaque"), "invalid_request"],
    [await exchange(""), "invalid_request"],
    [await exchange(token), "invalid_request"],
    [await exchange(await jobToken({ aud: "other" })), "invalid_request"],
    [await exchange(job, { actor_token: "x" }), "invalid_request"],
    [await exchange(job, { subject_token_type: "saml" }), "invalid_request"],
    [await exchange(job, { grant_type: "password" }), "unsupported_grant_type"],
  ];
  for (const [answer, code] of cases) {
    assert.equal(answer.status, 400);
    assert.equal(answer.body.error, code);
  }
  assert(!server.log().includes(token) && !server.log().includes(job));

  const policy = JSON.stringify({ rules: [{ subjects: "ci:*", actions: "pull" }] });
  await using strict = await start({ ...env, SVC_API_POLICY: policy });
  const form = (scope: string) =>
    new URLSearchParams({
      grant_type: TOKEN_EXCHANGE.grantType,
      subject_token_type: TOKEN_EXCHANGE.jwt,
      subject_token: job,
      scope,
    });
  assert.equal(await strict.status("POST", tokenEndpoint!, { body: form("registry:push") }), 400);
  assert.equal(await strict.status("POST", tokenEndpoint!, { body: form("registry:pull") }), 200);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("auth: rules for tokens without a key, and keys without rules, are startup errors", async () => {
  const file = await Deno.makeTempFile();
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  await Deno.writeTextFile(file, JSON.stringify({ keys: [publicKey.export({ format: "jwk" })] }));
  const cases: [Record<string, string>, RegExp][] = [
    [{ SVC_JWT_ISSUER: "x" }, /SVC_JWT_ISSUER: no key verifies tokens/],
    [{ SVC_JWT_DEFAULT_SCOPE: "api" }, /SVC_JWT_DEFAULT_SCOPE: no key/],
    [{ SVC_JWT_JWKS_FILE: file }, /nothing says which they get/],
    [{ SVC_JWT_JWKS_FILE: file, SVC_JWT_DEFAULT_SCOPE: "root" }, /"root" is no scope/],
    [{ SVC_JWT_HS256_SECRET: "x", SVC_JWT_SCOPE_MAP: "/nonexistent" }, /SVC_JWT_SCOPE_MAP/],
    [{ SVC_JWT_PUBLIC_KEY: "/nonexistent" }, /SVC_JWT_PUBLIC_KEY/],
  ];
  for (const [env, why] of cases) await assert.rejects(start(env), why);
  await Deno.remove(file);
});

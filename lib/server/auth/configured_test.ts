/** Options in, requests answered: everything but the executable. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import type { ChallengeResponse, EnrolledKey, KeyList, SessionResponse } from "../../api/auth.ts";
import type { WellKnown } from "../../api/info.ts";
import { sshSign, testKey } from "../../auth/ssh/testing.ts";
import { type CallOptions, INFO, start } from "./testing.ts";

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
  // Neither buys another one: as a password each is its own answer, as Bearer it is refused.
  for (const own of [nobody, somebody]) {
    assert.equal(await server.status("GET", realm, { token: own }), 401);
    assert.equal(await fetchToken(`me:${own}`), own);
  }
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
  // A refusal names the path that was asked for.
  const pushed = await start({
    SVC_JWT_HS256_SECRET: "x".repeat(32),
    SVC_API_POLICY: JSON.stringify(rules),
  });
  await using _pushed = pushed;
  const stranger = await new SignJWT({ sub: "a", scope: "api" })
    .setProtectedHeader({ alg: "HS256" }).setExpirationTime("1m")
    .sign(new TextEncoder().encode("x".repeat(32)));
  const refusal = await pushed.call("PUT", "/v2/team/app/manifests/v1", { token: stranger });
  assert.equal(refusal.status, 403);
  assert.match(
    (await refusal.json()).errors[0].message,
    /^Cannot PUT \/v2\/team\/app\/manifests\/v1: no rule allows "a" to push/,
  );
  const path = `${server.dataDir}/policy.yaml`;
  await Deno.writeTextFile(path, "rules: [{subjects: '*', actions: deploy}]");
  await using filed = await start({ SVC_AUTH_TOKEN: "the-token", SVC_API_POLICY: path });
  assert.equal(await filed.status("POST", "/x/deploy", { token }), 200);
  for (const bad of ["{", "/nonexistent/policy", "rules:\n  - {}\n"]) {
    await assert.rejects(start({ SVC_API_POLICY: bad }), /SVC_API_POLICY/);
  }
  await using nobody = await start({ SVC_API_POLICY: JSON.stringify(rules) });
  assert.equal(await nobody.status("POST", "/x/deploy"), 403);
  assert.equal(await nobody.status("GET", INFO), 403);
});

Deno.test("auth: a token file is made where nothing else is configured, for its owner alone, and read again", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-token-" });
  const SVC_AUTH_TOKEN_FILE = `${folder}/auth/token`;
  const use = `svc login --token - < ${SVC_AUTH_TOKEN_FILE}`;
  const read = async () => (await Deno.readTextFile(SVC_AUTH_TOKEN_FILE)).trim();
  // Another credential, or the token itself, takes its place.
  const others: Record<string, string>[] = [
    { SVC_AUTH_TOKEN: "t" },
    { SVC_JWT_HS256_SECRET: "x".repeat(32) },
  ];
  for (const other of others) {
    await using server = await start({ SVC_AUTH_TOKEN_FILE, ...other });
    assert(!server.log().includes(use));
    await assert.rejects(read());
  }
  {
    await using server = await start({ SVC_AUTH_TOKEN_FILE });
    assert(server.log().includes(use) && !server.log().includes(await read()));
    assert.equal((await Deno.stat(SVC_AUTH_TOKEN_FILE)).mode! & 0o777, 0o600);
    assert.equal(await server.status("GET", INFO), 401);
    assert.equal(await server.status("GET", INFO, { token: await read() }), 200);
  }
  const token = await read();
  await using server = await start({ SVC_AUTH_TOKEN_FILE });
  assert.equal(await server.status("GET", INFO, { token }), 200);
  assert(!server.log().includes(use));
  for (const bad of ["", "two words"]) {
    await Deno.writeTextFile(SVC_AUTH_TOKEN_FILE, bad);
    await assert.rejects(start({ SVC_AUTH_TOKEN_FILE }), /SVC_AUTH_TOKEN_FILE/);
  }
  await Deno.remove(folder, { recursive: true });
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
  const prove = async (key: typeof admin, wanted: { fingerprint: string; scope?: string }) => {
    const asked = await server.call("POST", challengePath, jsonBody(wanted));
    const { challenge } = await asked.json() as ChallengeResponse;
    const signature = sshSign(key, namespace, challenge);
    return await server.call("POST", session, jsonBody({ challenge, signature }));
  };
  const login = async (key: typeof admin, fingerprint: string): Promise<SessionResponse> => {
    const response = await prove(key, { fingerprint });
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
  const { fingerprint: about } = enrolled;
  const wide = await prove(worker, { fingerprint: about, scope: "peer" });
  assert.equal(wide.status, 403);
  await wide.body?.cancel();
  const foreign = await prove(admin, { fingerprint: about });
  assert.equal(foreign.status, 401);
  await foreign.body?.cancel();
  for (const status of [201, 403]) {
    await server.noted({ path: session, status, subject: "worker", about });
  }
  await server.noted({ path: session, status: 401, subject: "" });
  await server.noted({
    path: `${AUTH}/keys`,
    status: 201,
    subject: "admin",
    about: `${about} worker`,
  });
  const path = `${AUTH}/keys/${encodeURIComponent(enrolled.fingerprint)}`;
  assert.equal(await server.status("GET", `${AUTH}/keys`), 401);
  assert.equal(await server.status("DELETE", path, { token }), 204);
  assert.equal(await server.status("GET", INFO, { token: mine.token }), 401);
  // Sessions of a key are for its name and its scopes of now.
  for (const change of [{ name: "somebody" }, { scope: "registry:pull" }, {}]) {
    const body = JSON.stringify({ publicKey: `${worker.line} worker`, ...change });
    assert.equal(await server.status("POST", `${AUTH}/keys`, { token, body }), 201);
    const good = Object.keys(change).length === 0;
    assert.equal(await server.status("GET", INFO, { token: mine.token }), good ? 200 : 401);
    assert.equal(await server.status("DELETE", path, { token }), 204);
  }
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

Deno.test("auth: rules for tokens without a key, and keys without rules, are startup errors", async () => {
  const file = await Deno.makeTempFile();
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  await Deno.writeTextFile(file, JSON.stringify({ keys: [publicKey.export({ format: "jwk" })] }));
  const cases: [Record<string, string>, RegExp][] = [
    [{ SVC_JWT_ISSUER: "x" }, /SVC_JWT_ISSUER: no key verifies tokens/],
    [{ SVC_JWT_DEFAULT_SCOPE: "api" }, /SVC_JWT_DEFAULT_SCOPE: no key/],
    [{ SVC_JWT_JWKS_FILE: file }, /nothing maps them to one/],
    [{ SVC_JWT_JWKS_FILE: file, SVC_JWT_DEFAULT_SCOPE: "root" }, /"root" is not a scope/],
    [{ SVC_JWT_HS256_SECRET: "x", SVC_JWT_SCOPE_MAP: "/nonexistent" }, /SVC_JWT_SCOPE_MAP/],
    [{ SVC_JWT_PUBLIC_KEY: "/nonexistent" }, /SVC_JWT_PUBLIC_KEY/],
  ];
  for (const [env, why] of cases) await assert.rejects(start(env), why);
  await Deno.remove(file);
});

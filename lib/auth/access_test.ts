import assert from "node:assert/strict";
import type { Action, ClientCertificate, Connection, Identity, Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { type AccessOptions, ConfiguredAccess, NOBODY } from "./access.ts";
import { Authenticator } from "./authenticator.ts";
import { MAX_TOKEN } from "./credential.ts";
import { INTERNAL_METHOD } from "./internal.ts";
import { parsePolicy } from "./policy.ts";
import { staticToken } from "./static_token.ts";
import type { Verifier } from "./verifier.ts";

const SECRET = "s3cret-of-the-server";

const connection = (certificate?: ClientCertificate): Connection => ({
  remote: "192.0.2.1:1",
  certificate,
  blob: () => assert.fail(),
  upgrade: () => assert.fail(),
});

const route = (path: string, action: Action | "any", method: Route["method"] = "GET"): Route => ({
  method,
  path,
  action,
  help: "",
  handler: () => new Response(),
});

const PULL = route("/v2/{name+}/manifests/{reference}", "pull");
const PUSH = route("/v2/{name+}/manifests/{reference}", "push", "PUT");
const PING = route("/v2/", "pull");
const INFO = route("/.svc/v1/info", "any");
const DEPLOY = route("/.svc/v1/deployments/{name}", "deploy", "PUT");

const request = (authorization?: string) =>
  new Request("http://reg.example:5000/v2/", { headers: authorization ? { authorization } : {} });
const basic = (user: string, password: string) => `Basic ${btoa(`${user}:${password}`)}`;

const refuses = async (code: string, work: () => unknown, message?: RegExp) =>
  await assert.rejects(async () => await work(), (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    assert(!error.message.includes(SECRET));
    if (message) assert.match(error.message, message);
    return true;
  });

function access(options: Partial<AccessOptions> & { verifiers?: Verifier[] } = {}) {
  const verifiers = options.verifiers ?? [staticToken(SECRET)];
  return new ConfiguredAccess({
    authenticator: new Authenticator({ verifiers, methods: ["token", "mtls"] }),
    ...options,
  });
}

Deno.test("access: the token as Bearer everywhere, as any user's password on the registry only", async () => {
  const guard = access();
  const of = async (header: string, row: Route) =>
    await guard.authenticate(request(header), connection(), row);
  for (const row of [PULL, INFO]) {
    const identity = await of(`Bearer ${SECRET}`, row) as Identity;
    assert.equal(identity.subject, "token");
    guard.authorize(PUSH, identity, request());
    guard.authorize(DEPLOY, identity, request());
    await of(`bearer   ${SECRET} `, row);
  }
  assert.equal((await of(basic("anybody", SECRET), PULL))?.subject, "token");
  assert.equal((await of(basic("", SECRET), PULL))?.subject, "token");
  await refuses("unauthorized", () => of(basic("anybody", SECRET), INFO));
  assert.equal(await guard.authenticate(request(), connection(), PULL), undefined);
});

Deno.test("access: what is not a token of ours is refused without being repeated", async () => {
  const guard = access();
  const bad = [
    "",
    "Bearer",
    "Bearer ",
    SECRET,
    `Token ${SECRET}`,
    `Bearer ${SECRET}x`,
    `Bearer ${SECRET.slice(0, -1)}`,
    `Bearer ${SECRET} ${SECRET}`,
    `Bearer ${"x".repeat(MAX_TOKEN + 1)}`,
    `Basic ${SECRET}`,
    basic("u", ""),
    basic(SECRET, "u"),
    `Basic ${"A".repeat(3 * MAX_TOKEN)}`,
    "Negotiate abc",
  ];
  for (const header of bad.filter((text) => text !== "")) {
    await refuses("unauthorized", () => guard.authenticate(request(header), connection(), PULL));
  }
});

Deno.test("access: a certificate identifies where no token is sent, and has to verify", async () => {
  const guard = access();
  const at = (certificate: ClientCertificate, header?: string) => async () =>
    await guard.authenticate(request(header), connection(certificate), INFO);
  assert.deepEqual(await at({ commonName: "alice" })(), {
    subject: "alice",
    scopes: ["api"],
    method: "mtls",
  });
  assert.equal((await at({ commonName: "alice" }, `Bearer ${SECRET}`)())?.subject, "token");
  await refuses("unauthorized", at({ commonName: "alice" }, "Bearer wrong"));
  await refuses("unauthorized", at({ refused: "self-signed" }), /self-signed/);
  await refuses("unauthorized", at({ refused: "expired" }, `Bearer ${SECRET}`));
});

Deno.test("access: scopes bound what a credential is for; api includes the registry", async () => {
  const guard = access();
  const as = (...scopes: string[]): Identity => ({ subject: "x", scopes, method: "jwt" });
  guard.authorize(PULL, as("registry:pull"), request());
  guard.authorize(PULL, as("registry:push"), request());
  guard.authorize(PUSH, as("api"), request());
  const needs = [
    [PUSH, as("registry:pull"), "registry:push"],
    [INFO, as("registry:push"), "api"],
    [PULL, as(), "registry:pull"],
    [{ ...INFO, scope: "peer" }, as("api"), "peer"],
  ] as const;
  for (const [row, identity, scope] of needs) {
    await refuses(
      "denied",
      () => guard.authorize(row, identity, request()),
      new RegExp(`scope ${scope}$`),
    );
  }
});

Deno.test("access: a policy grants actions by name and method; deploy brings exec, push brings pull", async () => {
  const policy = await parsePolicy(
    `rules:
  - { subjects: "ci-*", methods: [jwt], actions: [build, push] }
  - { subjects: [alice, bob], actions: deploy }
  - { subjects: root, actions: "*" }
`,
    "policy",
  );
  const guard = access({ policy });
  const may = (subject: string, method: string, action: Action) =>
    policy.allows({ subject, scopes: ["api"], method }, action);
  assert.deepEqual(
    [
      may("ci-1", "jwt", "build"),
      may("ci-1", "mtls", "build"),
      may("ci-1", "jwt", "deploy"),
      may("alice", "mtls", "exec"),
      may("alice", "mtls", "gc"),
      may("root", "token", "gc"),
      may("rooty", "token", "gc"),
      may("stranger", "jwt", "pull"),
    ],
    [true, false, false, true, false, true, false, true],
  );
  assert(!policy.restrictsPull);
  const carol = { subject: "carol", scopes: ["api"], method: "jwt" };
  // A name without a rule, or a rule without the name, has nothing; a rule of any kind opens what is for all.
  await refuses("denied", () => guard.authorize(INFO, carol, request()), /"carol" anything$/);
  guard.authorize(INFO, { ...carol, subject: "ci-1" }, request());
  await refuses(
    "denied",
    () =>
      guard.authorize(
        route("/.svc/v1/deployments", "read"),
        { ...carol, subject: "ci-1" },
        request(),
      ),
  );
  assert.deepEqual(
    [...policy.actionsOf({ subject: "alice", scopes: [], method: "mtls" })].sort(),
    ["deploy", "exec", "logs", "read"],
  );
  await refuses(
    "denied",
    () => guard.authorize(DEPLOY, carol, request()),
    /allows "carol" to deploy$/,
  );
  const noName = { subject: "", scopes: ["api"], method: "jwt" };
  await refuses("denied", () => guard.authorize(PULL, noName, request()), /nobody/);
});

Deno.test("access: a policy without authentication denies every action", async () => {
  const policy = await parsePolicy('{"rules":[{"subjects":"*","actions":"*"}]}', "policy");
  assert.equal(policy.actionsOf({ subject: "", scopes: ["api"] }).size, 0, "no name, no rule");
  const guard = new ConfiguredAccess({ policy });
  assert.equal(await guard.authenticate(request(), connection(), INFO), NOBODY);
  await refuses("denied", () => guard.authorize(INFO, NOBODY, request()));
  await refuses("denied", () => guard.authorize(DEPLOY, NOBODY, request()));
});

Deno.test("access: what a caller is granted beyond a route's action", async () => {
  const policy = await parsePolicy("rules: [{subjects: alice, actions: [pull, build]}]", "policy");
  const guard = access({ policy });
  const as = (subject: string, method = "jwt") => ({ subject, scopes: ["api"], method });
  assert(guard.perIdentity);
  assert(guard.allows(as("alice"), "build"));
  assert(!guard.allows(as("alice"), "deploy"));
  assert(!guard.allows(as("bob"), "pull"));
  assert(guard.allows(as("svc", INTERNAL_METHOD), "deploy"), "the server's own traffic");
  const open = access();
  assert.equal(open.perIdentity, false);
  assert(open.allows(as("bob"), "deploy"), "without a policy, scopes are enough");
});

Deno.test("access: pull is enforced where a rule names it", async () => {
  const policy = await parsePolicy(
    "rules: [{subjects: reader, actions: pull}, {subjects: writer, actions: push}]",
    "policy",
  );
  assert(policy.restrictsPull);
  const may = (subject: string) => policy.allows({ subject, scopes: [], method: "jwt" }, "pull");
  assert.deepEqual(["reader", "writer", "other"].map(may), [true, true, false]);
});

Deno.test("access: anonymous pulls, and how clients learn to log in all the same", async () => {
  const guard = access({ anonymousPull: true, registryTokens: "/.svc/v1/auth/registry" });
  const puller = await guard.authenticate(request(), connection(), PULL) as Identity;
  guard.authorize(PULL, puller, request());
  await refuses("unauthorized", () => guard.authorize(PUSH, puller, request()));
  for (const row of [PING, PUSH, INFO]) {
    assert.equal(await guard.authenticate(request(), connection(), row), undefined);
  }
  await refuses("unauthorized", () => guard.authenticate(request("Bearer x"), connection(), PULL));
  assert.equal(
    guard.challenge(request(), "/v2/"),
    'Bearer realm="http://reg.example:5000/.svc/v1/auth/registry",service="svc"',
  );
  const proxied = new Request("http://reg.example/v2/", {
    headers: { "x-forwarded-proto": "https" },
  });
  assert.match(guard.challenge(proxied, "/v2/"), /realm="https:\/\/reg\.example\/\.svc/);
  assert.equal(guard.challenge(request(), "/.svc/v1/info"), 'Bearer realm="svc"');
  // Without anonymous pulls, or without tokens for them, a login is what is asked for.
  const registryTokens = "/.svc/v1/auth/registry";
  for (const options of [{}, { registryTokens }, { anonymousPull: true }]) {
    assert.equal(access(options).challenge(request(), "/v2/a/tags/list"), 'Basic realm="svc"');
  }
});

Deno.test("policy: a malformed one says where", async () => {
  const cases: [string, RegExp][] = [
    ["", /expected an object, got null/],
    ["rules: []", /rules: expected a list with at least one entry, got an empty list/],
    ["rule: []", /rule: unknown field; did you mean rules\?/],
    ["rules: [{subjects: a}]", /rules\[0\]\.actions: expected a list.*, got nothing/],
    ["rules: [{actions: gc}]", /rules\[0\]\.subjects: /],
    ["rules: [{subjects: a, actions: [push, deply]}]", /actions\[1\]: "deply".*mean deploy/],
    ["rules: [{subjects: '', actions: gc}]", /subjects: expected a text, got an empty text/],
    ["rules: [{subjects: [1], actions: gc}]", /subjects\[0\]: expected a text, got 1/],
    ["rules: [{subjects: a, actions: gc, methods: [password]}]", /methods\[0\]: "password"/],
    ["rules: [{subjects: a, actions: gc, deny: true}]", /rules\[0\]\.deny: unknown field/],
    ["rules: [", /neither YAML nor JSON/],
    ["rules: [{subjects: a, subjects: b, actions: gc}]", /neither YAML nor JSON/],
    [`x: ${"y".repeat(1024 * 1024)}`, /larger than 1 MiB/],
  ];
  for (const [text, message] of cases) {
    await refuses("config_invalid", () => parsePolicy(text, "p.yaml"), message);
  }
});

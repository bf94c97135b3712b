import assert from "node:assert/strict";
import { join } from "node:path";
import { SignJWT } from "jose";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import type { Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { ConfiguredAccess } from "./access.ts";
import { Authenticator } from "./authenticator.ts";
import { presentedToken } from "./credential.ts";
import { InstallationSecret } from "./installation_secret.ts";
import { INTERNAL_SUBJECT, InternalCredentials, MAY_NOT_PULL_VIA } from "./internal.ts";
import { OwnTokens } from "./own_tokens.ts";
import { parsePolicy } from "./policy.ts";
import { PeerKey, type PeerPublicKey, PeerVerifier } from "./peer.ts";

const refuses = async (work: () => unknown, message: RegExp) =>
  await assert.rejects(async () => await work(), (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, "unauthorized");
    assert.match(error.message, message);
    return true;
  });

Deno.test("internal credentials: for one purpose, for a while, good on every replica of the secret", async () => {
  let now = 1_000_000;
  const clock = () => now;
  const own = new InternalCredentials(new InstallationSecret("one"), clock);
  const verify = (secret: string, token: string) =>
    new OwnTokens({ secret: new InstallationSecret(secret), now: clock })
      .verify(presentedToken(token));
  const pull = own.token("pull");
  now += 1000;
  assert.equal(own.token("pull"), pull);
  assert.deepEqual(verify("one", pull)?.identity, {
    subject: INTERNAL_SUBJECT,
    scopes: ["registry:pull"],
    method: "internal",
  });
  assert.deepEqual(verify("one", own.token("push"))?.identity.scopes, ["registry:push"]);
  assert.equal(verify("two", pull), undefined);
  // A policy that names nobody does not stand in the server's own way; the scope does.
  const policy = await parsePolicy("rules: [{subjects: nobody, actions: pull}]", "policy");
  const guard = new ConfiguredAccess({
    authenticator: new Authenticator({ verifiers: [], methods: [] }),
    policy,
  });
  const row = (action: "pull" | "push"): Route => ({
    method: "GET",
    path: "/v2/",
    action,
    help: "",
    handler: () => new Response(),
  });
  const request = (method = "GET") => new Request("http://svc.example/v2/", { method });
  const { identity } = verify("one", pull)!;
  guard.authorize(row("pull"), identity, request());
  assert.throws(
    () => guard.authorize(row("push"), identity, request()),
    /lacks the scope registry:push/,
  );
  assert.throws(
    () => guard.authorize(row("pull"), { ...identity, method: "jwt" }, request()),
    /no rule/,
  );
  const { identity: deliverer } = verify("one", own.token("deliver"))!;
  guard.authorize(row("push"), deliverer, request("PUT"));
  guard.authorize(row("pull"), deliverer, request("HEAD"));
  assert.throws(() => guard.authorize(row("pull"), deliverer, request()), /lacks the scope/);
  const forged = { ...deliverer, method: "jwt" };
  assert.throws(() => guard.authorize(row("push"), forged, request("PUT")), /lacks the scope/);
  // What this server asks itself, for somebody who may not pull, under a name that it does not know as its own.
  const circle = new Request("http://alias.example/v2/", {
    headers: { via: `1.1 proxy, ${MAY_NOT_PULL_VIA}, 1.1 other` },
  });
  assert.throws(
    () => guard.authorize(row("pull"), identity, circle),
    /whom no rule allows to pull/,
  );
  now += 21 * 60_000;
  assert.notEqual(own.token("pull"), pull);
  now += 10 * 60_000;
  await refuses(() => verify("one", pull), /expired/);
});

Deno.test("peer keys: kept private, published, and good for their replica alone", async () => {
  const dataDir = await Deno.makeTempDir();
  const path = join(dataDir, "peer.key");
  const one = await PeerKey.open(dataDir, "replica-1");
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  assert.deepEqual((await PeerKey.open(dataDir, "replica-1")).publicKey, one.publicKey);
  assert.deepEqual(Object.keys(one.publicKey).sort(), ["crv", "kty", "x", "y"]);
  const published = new Map<string, PeerPublicKey>([["replica-1", one.publicKey]]);
  let now = Date.now();
  const verifier = new PeerVerifier({
    keyOf: (replica) => Promise.resolve(published.get(replica)),
    now: () => now,
  });
  const check = async (token: string) => await verifier.verify(presentedToken(token));
  const token = await one.mint(now);
  assert.deepEqual((await check(token))?.identity, {
    subject: "replica-1",
    scopes: ["peer"],
    method: "peer",
  });
  assert.equal(await check("opaque"), undefined);

  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const seconds = Math.floor(now / 1000);
  const forged = (claims: Record<string, unknown>, header: Record<string, unknown> = {}) =>
    new SignJWT({
      scope: "peer",
      aud: "svc-peer",
      sub: "replica-1",
      iat: seconds,
      exp: seconds + 60,
      ...claims,
    })
      .setProtectedHeader({ alg: "ES256", kid: "replica-1", ...header }).sign(privateKey);
  await refuses(async () => await check(await forged({})), /does not verify/);
  await refuses(async () => await check(await forged({}, { kid: "replica-9" })), /not known/);
  await refuses(async () => await check(await forged({}, { kid: undefined })), /not known/);
  assert.equal(await check(await forged({ aud: "svc" })), undefined);
  published.set("replica-2", {
    ...(createJwk(privateKey)),
  });
  await refuses(async () => await check(await forged({}, { kid: "replica-2" })), /not one of a/);
  const good = { sub: "replica-2" };
  assert(await check(await forged(good, { kid: "replica-2" })));
  const wide = { ...good, scope: "api" };
  await refuses(async () => await check(await forged(wide, { kid: "replica-2" })), /not one of a/);
  const long = { ...good, iat: seconds - 1000 };
  await refuses(
    async () => await check(await forged(long, { kid: "replica-2" })),
    /expired|verify/,
  );
  now += 361_000;
  await refuses(() => check(token), /has expired/);
  const fresh = (await check(await one.mint(now)))!;
  assert(fresh.expires! <= now + 30_000, "a key that is withdrawn soon ends what it verified");
  const blind = new PeerVerifier({
    keyOf: () => Promise.reject(new Error("down")),
    now: () => now,
  });
  await assert.rejects(
    async () => await blind.verify(presentedToken(await one.mint(now))),
    (error) => error instanceof SvcError && error.code === "unavailable",
  );
  published.delete("replica-1");
  await refuses(async () => await check(await one.mint(now)), /not known/);
  await Deno.writeTextFile(path, "rubbish");
  await assert.rejects(PeerKey.open(dataDir, "replica-1"), /damaged/);
  await Deno.remove(dataDir, { recursive: true });
});

function createJwk(key: KeyObject): PeerPublicKey {
  const { x, y } = key.export({ format: "jwk" });
  return { kty: "EC", crv: "P-256", x: x!, y: y! };
}

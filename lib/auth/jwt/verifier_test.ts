import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHmac, generateKeyPairSync, type KeyObject } from "node:crypto";
import { SignJWT } from "jose";
import { SvcError } from "../../base/errors.ts";
import { silent } from "../../base/log.ts";
import { presentedToken } from "../credential.ts";
import { TokenCache } from "../token_cache.ts";
import { publicKey, sharedSecret } from "./fixed_key.ts";
import { keySetFile } from "./key_set_file.ts";
import { KeySetUrl } from "./key_set_url.ts";
import type { KeySource } from "./key_source.ts";
import { parseScopeMap } from "./scope_map.ts";
import { type JwtOptions, JwtVerifier } from "./verifier.ts";

const SECRET = "a-shared-secret-of-at-least-32-bytes";
const ISSUER = "https://issuer.example";
const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const other = generateKeyPairSync("ec", { namedCurve: "P-256" });

const pem = (key: KeyObject) => key.export({ type: "spki", format: "pem" }) as string;
const jwk = (key: KeyObject, kid: string) => ({
  ...key.export({ format: "jwk" }),
  kid,
  use: "sig",
});
const keySet = (...keys: object[]) => JSON.stringify({ keys });

interface Minting {
  alg?: string;
  kid?: string;
  claims?: Record<string, unknown>;
  /** Seconds from now. */
  exp?: number | null;
}

async function mint(key: KeyObject | string, minting: Minting = {}): Promise<string> {
  const { alg = "ES256", kid, claims = {}, exp = 300 } = minting;
  const token = new SignJWT({ sub: "alice", scope: "api", iss: ISSUER, aud: "svc", ...claims })
    .setProtectedHeader({ alg, kid });
  if (exp !== null) token.setExpirationTime(Math.floor(Date.now() / 1000) + exp);
  return await token.sign(typeof key === "string" ? new TextEncoder().encode(key) : key);
}

function verifier(sources: KeySource[], options: Partial<JwtOptions> = {}) {
  const jwt = new JwtVerifier({ sources, issuer: ISSUER, audience: "svc", ...options });
  return async (text: string) => await jwt.verify(presentedToken(text));
}

const refuses = async (work: Promise<unknown>, message: RegExp, code = "unauthorized") =>
  await assert.rejects(work, (error) => {
    assert(error instanceof SvcError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, message);
    return true;
  });

Deno.test("jwt: HS256, RS256 and ES256 with their own scopes", async () => {
  const check = verifier([sharedSecret(SECRET), publicKey(pem(rsa.publicKey), "rsa.pem")]);
  const shared = await check(await mint(SECRET, { alg: "HS256" }));
  assert.deepEqual(shared?.identity, { subject: "alice", scopes: ["api"], method: "jwt" });
  const signed = await check(
    await mint(rsa.privateKey, { alg: "RS256", claims: { scope: "openid registry:pull admin" } }),
  );
  assert.deepEqual(signed?.identity.scopes, ["registry:pull"]);
  const curve = verifier([publicKey(pem(ec.publicKey), "ec.pem")]);
  assert.equal((await curve(await mint(ec.privateKey)))?.identity.subject, "alice");
  const none = await curve(await mint(ec.privateKey, { claims: { scope: [] } }));
  assert.deepEqual(none?.identity.scopes, []);
  assert.equal(await check("opaque-token"), undefined);
  assert.equal(await check("a.b.c"), undefined);
});

Deno.test("jwt: one without an end is refused, by whatever key, unless it is allowed for the own ones", async () => {
  const keys = [sharedSecret(SECRET), publicKey(pem(ec.publicKey), "ec.pem")];
  const endless = [
    await mint(SECRET, { alg: "HS256", exp: null }),
    await mint(ec.privateKey, { exp: null }),
  ];
  for (const token of endless) {
    await refuses(verifier(keys)(token), /no valid end/);
    const verified = await verifier(keys, { allowNoExpiry: true })(token);
    assert.equal(verified?.identity.subject, "alice");
  }
});

Deno.test("jwt: a verified token is kept until its end, with a minute for the clocks, or for five minutes", async () => {
  const now = 1_800_000_000_000;
  const options = { allowNoExpiry: true, now: () => now };
  const check = verifier([publicKey(pem(ec.publicKey), "ec.pem")], options);
  const exp = now / 1000 + 100;
  const ending = await check(await mint(ec.privateKey, { claims: { exp }, exp: null }));
  assert.equal(ending?.expires, now + 160_000);
  const endless = await check(await mint(ec.privateKey, { exp: null }));
  assert.equal(endless?.expires, now + 300_000);
});

Deno.test("jwt: forged, expired, early, for others: refused, and why", async () => {
  const check = verifier([publicKey(pem(ec.publicKey), "ec.pem")]);
  const now = Math.floor(Date.now() / 1000);
  const cases: [Promise<string>, RegExp][] = [
    [mint(other.privateKey), /signature does not verify/],
    [mint(ec.privateKey, { exp: -61 }), /has expired/],
    [mint(ec.privateKey, { claims: { nbf: now + 120 } }), /not good yet/],
    [mint(ec.privateKey, { claims: { aud: "other" } }), /audience/],
    [mint(ec.privateKey, { claims: { aud: undefined } }), /audience/],
    [mint(ec.privateKey, { claims: { iss: `${ISSUER}/` } }), /issuer/],
    [mint(ec.privateKey, { claims: { exp: "soon" }, exp: null }), /no valid end/],
  ];
  for (const [token, why] of cases) await refuses(check(await token), why);
  await check(await mint(ec.privateKey, { exp: -50 }));
  await check(await mint(ec.privateKey, { claims: { nbf: now + 50, aud: ["x", "svc"] } }));
  const good = await mint(ec.privateKey);
  const [head, body, mac] = good.split(".");
  const altered = Buffer.from(
    JSON.stringify({ ...JSON.parse(Buffer.from(body, "base64url").toString()), sub: "root" }),
  ).toString("base64url");
  await refuses(check(`${head}.${altered}.${mac}`), /signature/);
});

Deno.test("jwt: of several keys the one that signed says why a token is refused", async () => {
  const keys = [publicKey(pem(ec.publicKey), "a.pem"), publicKey(pem(other.publicKey), "b.pem")];
  for (const { privateKey } of [ec, other]) {
    assert(await verifier(keys)(await mint(privateKey)));
    await refuses(verifier(keys)(await mint(privateKey, { exp: -61 })), /has expired/);
  }
  const { privateKey: stranger } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  await refuses(verifier(keys)(await mint(stranger)), /signature does not verify/);
  const odd = await mint(ec.privateKey, { claims: { iat: "soon" } });
  await refuses(verifier(keys)(odd), /its claims are not valid/);
});

Deno.test("jwt: scopes may be a list; a token without a subject, or whose subject is no text, names nobody", async () => {
  const check = verifier([publicKey(pem(ec.publicKey), "ec.pem")], { defaultScopes: ["peer"] });
  const of = async (claims: Record<string, unknown>) => {
    const { subject, scopes } = (await check(await mint(ec.privateKey, { claims })))!.identity;
    return [subject, scopes];
  };
  assert.deepEqual(await of({ scope: ["api", "email", 1] }), ["alice", ["api"]]);
  assert.deepEqual(await of({ sub: undefined }), ["", ["api"]]);
  assert.deepEqual(await of({ sub: 7 }), ["", ["api"]]);
  // Without the claim it gets what others get whom no rule names.
  for (const scope of [undefined, 7]) assert.deepEqual(await of({ scope }), ["alice", ["peer"]]);
});

Deno.test("jwt: alg none and a public key taken for a secret are refused", async () => {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const payload = encode({ sub: "root", scope: "api", iss: ISSUER, aud: "svc", exp: 4e9 });
  const forge = (alg: string, secret: string) => {
    const input = `${encode({ alg, typ: "JWT" })}.${payload}`;
    return `${input}.${createHmac("sha256", secret).update(input).digest("base64url")}`;
  };
  const sources = [publicKey(pem(rsa.publicKey), "rsa.pem"), publicKey(pem(ec.publicKey), "e.pem")];
  for (const alg of ["none", "None", "HS256", "HS512", "RS384", ""]) {
    await refuses(verifier(sources)(forge(alg, pem(rsa.publicKey))), /algorithm is not accepted/);
  }
  const both = verifier([sharedSecret(SECRET), ...sources]);
  await refuses(both(forge("HS256", pem(rsa.publicKey))), /signature/);
  await refuses(both(forge("none", SECRET)), /algorithm/);
  await refuses(both(await mint(SECRET, { alg: "HS512" })), /algorithm/);
  const critical = `${encode({ alg: "HS256", crit: ["x"], x: 1 })}.${payload}`;
  const mac = createHmac("sha256", SECRET).update(critical).digest("base64url");
  await refuses(both(`${critical}.${mac}`), /malformed/);
});

Deno.test("jwt: public keys that are none, or too weak, are startup errors", () => {
  const weak = generateKeyPairSync("rsa", { modulusLength: 1024 });
  const curve = generateKeyPairSync("ec", { namedCurve: "secp384r1" });
  const texts: [string, RegExp][] = [
    ["rubbish", /no public key in PEM/],
    [pem(weak.publicKey), /less than 2048 bits/],
    [pem(curve.publicKey), /its key is ec secp384r1/],
    [ec.privateKey.export({ type: "pkcs8", format: "pem" }) as string, /private key/],
  ];
  for (const [text, why] of texts) assert.throws(() => publicKey(text, "k.pem"), why);
});

Deno.test("jwt: keys of a third party get their scopes from the map, never from the token", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/jwks.json`;
  await Deno.writeTextFile(path, keySet(jwk(ec.publicKey, "k1")));
  using source = await keySetFile(path, { log: silent, everyMs: 10 });
  const scopeMap = await parseScopeMap(
    `rules:
  - claims: { repository: "org/*", ref: [refs/heads/main, "refs/tags/*"] }
    scope: registry:push
    subject: "ci:{repository}"
  - claims: { /realm_access/roles: admin }
    scope: [api]
`,
    "map",
  );
  const check = verifier([source], { scopeMap });
  const token = async (claims: Record<string, unknown>, kid = "k1") =>
    await check(await mint(ec.privateKey, { kid, claims: { scope: "api", ...claims } }));
  assert.deepEqual((await token({}))?.identity.scopes, []);
  assert.deepEqual((await token({ repository: "org/app", ref: "refs/tags/v1" }))?.identity, {
    subject: "ci:org/app",
    scopes: ["registry:push"],
    method: "jwt",
  });
  const roles = await token({ realm_access: { roles: ["user", "admin"] } });
  assert.deepEqual(roles?.identity.scopes, ["api"]);
  const withDefault = verifier([source], { scopeMap, defaultScopes: ["registry:pull"] });
  const plain = await withDefault(await mint(ec.privateKey, { kid: "k1" }));
  assert.deepEqual(plain?.identity.scopes, ["registry:pull"]);
  await refuses(token({}, "k2"), /key is not known/);
  for (const allowNoExpiry of [false, true]) {
    const endless = await mint(ec.privateKey, { kid: "k1", exp: null });
    await refuses(verifier([source], { scopeMap, allowNoExpiry })(endless), /no valid end/);
  }

  // Rotation: what the old key signed is good no more, cached or not; rubbish changes nothing.
  const cache = new TokenCache();
  const before = presentedToken(await mint(ec.privateKey, { kid: "k1" }));
  cache.set(before, (await check(before.text))!);
  const until = async (condition: () => boolean | Promise<boolean>) => {
    for (let n = 0; !await condition(); n++) {
      assert(n < 3000, "in time");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  await Deno.writeTextFile(path, "{rubbish");
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert(cache.get(before.text));
  await Deno.writeTextFile(path, keySet(jwk(other.publicKey, "k2")));
  await until(() => cache.get(before.text) === undefined);
  await refuses(check(before.text), /key is not known/);
  assert(await check(await mint(other.privateKey, { kid: "k2" })));
  await Deno.remove(folder, { recursive: true });
  await assert.rejects(keySetFile(path, { log: silent }), /no such file/);
});

Deno.test("jwt: a key set by URL is kept, fetched for new keys, and not for each made-up one", async () => {
  let mode: "good" | "rubbish" | "down" | "huge" | "hang" = "good";
  let keys = [jwk(ec.publicKey, "k1")];
  let asked = 0;
  const ended = Promise.withResolvers<void>();
  await using server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen: () => {} },
    async (request) => {
      asked++;
      if (mode === "down") return new Response("no", { status: 503 });
      if (mode === "rubbish") return new Response("<html>");
      if (mode === "huge") return new Response("x".repeat(2 * 1024 * 1024));
      if (mode === "hang") {
        await Promise.race([
          ended.promise,
          new Promise((resolve) => request.signal.addEventListener("abort", resolve)),
        ]);
      }
      return new Response(keySet(...keys));
    },
  );
  let now = 0;
  const source = new KeySetUrl(`http://127.0.0.1:${server.addr.port}/jwks`, {
    log: silent,
    timeoutMs: 60_000,
    now: () => now,
  });
  const check = verifier([source], { defaultScopes: ["api"] });
  const with1 = await mint(ec.privateKey, { kid: "k1" });
  const with2 = await mint(other.privateKey, { kid: "k2" });
  await Promise.all([check(with1), check(with1), check(with1)]);
  assert.equal(asked, 1);
  for (let n = 0; n < 20; n++) await refuses(check(with2), /key is not known/);
  assert.equal(asked, 1);
  keys = [jwk(ec.publicKey, "k1"), jwk(other.publicKey, "k2")];
  now += 31_000;
  assert(await check(with2));
  assert.equal(asked, 2);
  for (const trouble of ["rubbish", "down", "huge"] as const) {
    mode = trouble;
    now += 31_000;
    await refuses(check(await mint(ec.privateKey, { kid: "k9" })), /key is not known/);
    assert(await check(with1), trouble);
  }
  assert.equal(asked, 5);
  // A key that is gone ends its tokens with the next background fetch.
  mode = "good";
  keys = [jwk(other.publicKey, "k2")];
  const { holds } = (await check(with1))!;
  now += 700_000;
  for (let n = 0; holds!(); n++) {
    assert(n < 3000, "in time");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await refuses(check(with1), /key is not known/);

  mode = "hang";
  const url = `http://127.0.0.1:${server.addr.port}/`;
  const waiting = new KeySetUrl(url, { log: silent, timeoutMs: 50 });
  await refuses(verifier([waiting])(with1), /cannot be fetched/, "unavailable");
  ended.resolve();

  mode = "down";
  const never = new KeySetUrl(url, { log: silent, now: () => now });
  const blind = verifier([never], { defaultScopes: ["api"] });
  const before = asked;
  for (let n = 0; n < 3; n++) await refuses(blind(with1), /cannot be fetched/, "unavailable");
  assert.equal(asked, before + 1);
  // The issuer may be starting too: the first set is not waited for as long as a new one.
  mode = "good";
  now += 2001;
  assert(await blind(with2));
});

Deno.test("jwt: keys without names, as of an issuer that rotates, are tried each", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/jwks.json`;
    const nameless = ({ publicKey }: { publicKey: KeyObject }) =>
      publicKey.export({ format: "jwk" });
    await Deno.writeTextFile(path, keySet(nameless(ec), nameless(other), nameless(rsa)));
    using source = await keySetFile(path, { log: silent });
    const check = verifier([source], { defaultScopes: ["api"] });
    for (const { privateKey } of [ec, other]) {
      assert.equal((await check(await mint(privateKey)))?.identity.subject, "alice");
      await refuses(check(await mint(privateKey, { exp: -61 })), /has expired/);
    }
    assert(await check(await mint(rsa.privateKey, { alg: "RS256" })));
    const { privateKey: stranger } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    await refuses(check(await mint(stranger)), /signature does not verify/);

    // Eight are tried: nobody makes the server try thousands for one token.
    const many = Array.from(
      { length: 9 },
      () => generateKeyPairSync("ec", { namedCurve: "P-256" }),
    );
    await Deno.writeTextFile(path, keySet(...many.map(nameless)));
    using set = await keySetFile(path, { log: silent });
    assert(await verifier([set])(await mint(many[7].privateKey)));
    await refuses(verifier([set])(await mint(many[8].privateKey)), /signature does not verify/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("jwt: key sets hold public signature keys only", async () => {
  const path = await Deno.makeTempFile();
  const rubbish = [
    "",
    "[]",
    "null",
    '{"keys":{}}',
    keySet(),
    keySet({ kty: "oct", k: "c2VjcmV0", kid: "k" }),
    keySet({ ...jwk(ec.publicKey, "k"), use: "enc" }),
    keySet({ ...jwk(ec.publicKey, "k"), alg: "HS256" }),
  ];
  for (const text of rubbish) {
    await Deno.writeTextFile(path, text);
    await assert.rejects(keySetFile(path, { log: silent }), /SVC_JWT_JWKS_FILE/, text);
  }
  await Deno.remove(path);
});

Deno.test("scope map: a malformed one says where", async () => {
  const cases: [string, RegExp][] = [
    ["rules: [{claims: {}, scope: api}]", /claims: a rule without claims matches every token/],
    ["rules: [{claims: {a: b}}]", /rules\[0\]\.scope: /],
    [
      "rules: [{claims: {a: b}, scope: apy}]",
      /rules\[0\]\.scope: "apy" is not a scope; did you mean/,
    ],
    ["rules: [{claims: {a: {b: c}}, scope: api}]", /claims\.a: expected a text, number or/],
    ["rules: [{claims: {a: []}, scope: api}]", /claims\.a: expected a list with at least one/],
    ["rules: [{claims: {a: b}, scope: api, subject: 1}]", /subject: expected a text/],
    ["rules: [{claim: {a: b}, scope: api}]", /claim: unknown field; did you mean claims/],
  ];
  for (const [text, why] of cases) await refuses(parseScopeMap(text, "m"), why, "config_invalid");
});

Deno.test("scope map: a subject whose claim is missing matches nothing", async () => {
  const map = await parseScopeMap(
    'rules: [{claims: {a: "*"}, scope: api, subject: "x:{b}"}, {claims: {a: [1, true]}, scope: peer}]',
    "m",
  );
  assert.deepEqual(map.map({ a: "y", b: "z" }), { scopes: ["api"], subject: "x:z" });
  assert.equal(map.map({ a: "y" }), undefined);
  assert.equal(map.map({ a: "y", b: { c: 1 } }), undefined);
  assert.deepEqual(map.map({ a: 1 }), { scopes: ["peer"] });
  assert.deepEqual(map.map({ a: [[1], true] }), { scopes: ["peer"] });
  assert.equal(map.map({ a: "1" })?.scopes[0], undefined);
  assert.equal(map.map({ toString: 1 }), undefined);
  // Of a list only entries count, and not those of lists within it.
  assert.equal(map.map({ a: [["y"]], b: "z" }), undefined);
  const deep = await parseScopeMap("rules: [{claims: {/a/b: c}, scope: api}]", "m");
  for (const a of [null, "b", { c: 1 }]) assert.equal(deep.map({ a }), undefined);
  assert.deepEqual(deep.map({ a: { b: "c" } }), { scopes: ["api"] });
});

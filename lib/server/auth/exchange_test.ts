/** The token endpoint, with an issuer of the test's own. */
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { SignJWT } from "jose";
import { TOKEN_EXCHANGE, type TokenExchangeResponse } from "../../api/auth.ts";
import type { WellKnown } from "../../api/info.ts";
import { INFO, start } from "./testing.ts";

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
  const exchange = async (
    subject_token: string,
    more: Record<string, string> = {},
    [twice, ...values]: string[] = [],
  ) => {
    const form = new URLSearchParams({
      grant_type: TOKEN_EXCHANGE.grantType,
      subject_token_type: TOKEN_EXCHANGE.jwt,
      subject_token,
      ...more,
    });
    for (const value of values) form.append(twice, value);
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

  const asked = { requested_token_type: TOKEN_EXCHANGE.accessToken };
  assert.equal((await exchange(job, asked)).status, 200);
  const asIdToken = { subject_token_type: TOKEN_EXCHANGE.idToken };
  assert.equal((await exchange(job, asIdToken)).status, 200);

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
    [await exchange(job, { requested_token_type: TOKEN_EXCHANGE.idToken }), "invalid_request"],
    [await exchange(job, {}, ["scope", "registry:pull", "registry:push"]), "invalid_request"],
    [await exchange(job, { subject_token_type: "saml" }), "invalid_request"],
    [await exchange(job, { grant_type: "password" }), "unsupported_grant_type"],
  ];
  for (const [answer, code] of cases) {
    assert.equal(answer.status, 400);
    assert.equal(answer.body.error, code);
  }
  const { body: unscoped } = await exchange(stranger);
  assert.equal(unscoped.error_description, "no rule grants this credential a scope");
  for (
    const [status, subject] of [[200, "ci:org/app"], [400, "repo:org/app"], [400, ""]] as const
  ) {
    await server.noted({ path: tokenEndpoint!, status, subject });
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

import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { silent } from "../base/log.ts";
import { MEDIA } from "../oci/types.ts";
import { type FakeRegistry, startFakeRegistry } from "../../test/peers/fake_registry.ts";
import { type Credentials, parseChallenges } from "./auth.ts";
import { createRemoteRegistry } from "./registry.ts";

Deno.test("auth: challenges of every spelling", () => {
  assert.deepEqual(parseChallenges('Basic realm="a b"'), [
    { scheme: "basic", parameters: { realm: "a b" } },
  ]);
  assert.deepEqual(
    parseChallenges(
      'Bearer realm="https://t/x?a=1,2",service="s \\"q\\"",scope="repository:a:pull,push", Basic realm=plain',
    ),
    [
      {
        scheme: "bearer",
        parameters: {
          realm: "https://t/x?a=1,2",
          service: 's "q"',
          scope: "repository:a:pull,push",
        },
      },
      { scheme: "basic", parameters: { realm: "plain" } },
    ],
  );
  assert.deepEqual(parseChallenges(""), []);
});

/** A registry that wants a token of its own token server, which counts what it gives out. */
function guarded(fake: FakeRegistry, life = 300) {
  const given: { scope: string[]; authorization: string | null; form?: string }[] = [];
  fake.manifests.set("a/v1", { type: MEDIA.manifest, bytes: new TextEncoder().encode("{}") });
  fake.intercept = async (request, url) => {
    if (url.pathname === "/token") {
      given.push({
        scope: url.searchParams.getAll("scope"),
        authorization: request.headers.get("authorization"),
        form: request.method === "POST" ? await request.text() : undefined,
      });
      return Response.json({ token: `t${given.length}`, expires_in: life });
    }
    if (request.headers.get("authorization") === `Bearer t${given.length}`) return;
    return new Response(null, {
      status: 401,
      headers: {
        "www-authenticate": `Bearer realm="http://${fake.host}/token",service="reg"`,
      },
    });
  };
  return given;
}

const client = (fake: FakeRegistry, credentials?: Credentials) =>
  createRemoteRegistry({
    host: fake.host,
    userAgent: "t",
    log: silent,
    pauseMs: 1,
    credentials: () => Promise.resolve(credentials),
  });

Deno.test("auth: a token is fetched for the scope, kept, and fetched anew when it ends", async () => {
  await using fake = startFakeRegistry();
  const given = guarded(fake);
  const remote = client(fake, { username: "u", password: "p" });
  assert.ok(await remote.resolve("a", "v1"));
  assert.ok(await remote.resolve("a", "v1"));
  assert.deepEqual(given, [{
    scope: ["repository:a:pull"],
    authorization: `Basic ${btoa("u:p")}`,
    form: undefined,
  }]);
  const shortLived = startFakeRegistry();
  await using _ = shortLived;
  const again = guarded(shortLived, 1);
  const other = client(shortLived);
  await other.resolve("a", "v1");
  await other.resolve("a", "v1");
  assert.equal(again.length, 2);
  assert.equal(again[0].authorization, null);
});

Deno.test("auth: an identity token is exchanged, a bearer token used as it is", async () => {
  await using fake = startFakeRegistry();
  const given = guarded(fake);
  await client(fake, { identityToken: "refresh me" }).resolve("a", "v1");
  const form = new URLSearchParams(given[0].form);
  assert.equal(form.get("grant_type"), "refresh_token");
  assert.equal(form.get("refresh_token"), "refresh me");
  assert.equal(form.get("scope"), "repository:a:pull");
  await client(fake, { token: "t1" }).resolve("a", "v1");
  assert.equal(given.length, 1);
});

Deno.test("auth: no credentials, refused ones, and a token server without TLS are said plainly", async () => {
  await using fake = startFakeRegistry();
  fake.intercept = () =>
    new Response(null, { status: 401, headers: { "www-authenticate": 'Basic realm="x"' } });
  const refused = (e: unknown) => e instanceof SvcError && e.code === "unauthorized";
  await assert.rejects(client(fake).resolve("a", "v1"), refused);
  await assert.rejects(client(fake, { username: "u", password: "p" }).resolve("a", "v1"), refused);
  assert.equal(fake.seen.length, 3);
  fake.intercept = () =>
    new Response(null, {
      status: 401,
      headers: { "www-authenticate": 'Bearer realm="ftp://somewhere/"' },
    });
  await assert.rejects(
    client(fake).resolve("a", "v1"),
    (e) => e instanceof SvcError && e.code === "upstream_failed" && /TLS/.test(e.message),
  );
});

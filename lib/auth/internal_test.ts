import assert from "node:assert/strict";
import type { Route } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { ConfiguredAccess } from "./access.ts";
import { Authenticator } from "./authenticator.ts";
import { presentedToken } from "./credential.ts";
import { InstallationSecret } from "./installation_secret.ts";
import { INTERNAL_SUBJECT, InternalCredentials, MAY_NOT_PULL_VIA } from "./internal.ts";
import { OwnTokens } from "./own_tokens.ts";
import { parsePolicy } from "./policy.ts";

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

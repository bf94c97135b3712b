import assert from "node:assert/strict";
import { ConfiguredAccess } from "../auth/access.ts";
import { parsePolicy } from "../auth/policy.ts";
import { CALLER_HEADER } from "../api/build_logins.ts";
import { openAccess } from "./access.ts";
import { cacheOwner } from "./build_request.ts";

Deno.test("what a build writes is its caller's own where there is a policy", async () => {
  const rules = { rules: [{ subjects: ["*"], actions: "*" }] };
  const policy = await parsePolicy(JSON.stringify(rules), "policy");
  const strict = new ConfiguredAccess({ policy });
  const none = new Headers();
  const relayed = new Headers({ [CALLER_HEADER]: "jwt%20bob" });
  const alice = { subject: "alice", method: "jwt", scopes: ["api"] } as const;
  const owner = (headers: Headers, identity: { subject: string; method: "jwt" | "mtls" }) =>
    cacheOwner(strict, { ...identity, scopes: ["api"] }, headers);
  assert.equal(owner(none, alice), "jwt%20alice");
  assert.notEqual(owner(none, { ...alice, method: "mtls" }), owner(none, alice));
  assert.equal(owner(relayed, alice), "jwt%20alice jwt%20bob", "nobody becomes another");
  assert.notEqual(owner(none, { ...alice, subject: "alice jwt bob" }), owner(relayed, alice));
  const open = { subject: "anonymous", scopes: [] };
  assert.equal(cacheOwner(openAccess, open, none), undefined);
  assert.equal(cacheOwner(openAccess, open, relayed), "jwt%20bob", "a builder is told");
  assert.equal(cacheOwner(new ConfiguredAccess({}), { ...alice, scopes: [] }, none), undefined);
});

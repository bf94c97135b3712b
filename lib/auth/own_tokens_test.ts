import assert from "node:assert/strict";
import { presentedToken } from "./credential.ts";
import { InstallationSecret } from "./installation_secret.ts";
import { OwnTokens } from "./own_tokens.ts";

const secret = new InstallationSecret("of the own tokens' test, for tests only");
const CLAIMS = { subject: "alice", scopes: ["api"], method: "ssh-key" } as const;

Deno.test("own tokens: a token is good until the millisecond in which it expires", () => {
  let now = 1000;
  const tokens = new OwnTokens({ secret, now: () => now });
  const { token, expires } = tokens.mint(CLAIMS, 500);
  assert.equal(expires, 1500);
  now = 1499;
  assert.deepEqual(tokens.verify(presentedToken(token)), { identity: { ...CLAIMS }, expires });
  now = 1500;
  assert.throws(() => tokens.verify(presentedToken(token)), /it has expired/);
});

Deno.test("own tokens: a token of a key is good only where somebody says that the key still is", () => {
  const { token } = new OwnTokens({ secret }).mint({ ...CLAIMS, key: "SHA256:x" }, 60_000);
  assert.throws(() => new OwnTokens({ secret }).verify(presentedToken(token)), /enrolled no more/);
  let asked: unknown[] = [];
  let enrolled = true;
  const hasKey = (...key: unknown[]) => (asked = key, enrolled);
  const verified = new OwnTokens({ secret, hasKey }).verify(presentedToken(token))!;
  assert.deepEqual(verified.identity, { ...CLAIMS, key: "SHA256:x" });
  assert.deepEqual(asked, ["SHA256:x", "alice", ["api"]]);
  enrolled = false;
  assert.equal(verified.holds!(), false);
});

import assert from "node:assert/strict";
import { TOKEN_EXCHANGE } from "../api/auth.ts";
import type { Connection } from "../api/route.ts";
import { SvcError } from "../base/errors.ts";
import { Authenticator } from "./authenticator.ts";
import { InstallationSecret } from "./installation_secret.ts";
import { OwnTokens } from "./own_tokens.ts";
import { ExchangeRefused, exchangeToken } from "./token_exchange.ts";
import type { Verifier } from "./verifier.ts";

Deno.test("token exchange: a token that cannot be checked now is not told as refused", async () => {
  const tokens = new OwnTokens({ secret: new InstallationSecret("one") });
  const form = new URLSearchParams({
    grant_type: TOKEN_EXCHANGE.grantType,
    subject_token_type: TOKEN_EXCHANGE.jwt,
    subject_token: "a.b.c",
  });
  const exchange = (verify: Verifier["verify"]) =>
    exchangeToken(form, {
      authenticator: new Authenticator({ verifiers: [{ verify }], methods: ["jwt"] }),
      tokens,
    });
  const down = new SvcError("upstream_failed", "Cannot fetch the issuer's keys: it is down");
  await assert.rejects(exchange(() => Promise.reject(down)), down);
  await assert.rejects(
    exchange(() => Promise.resolve(undefined)),
    (error) => error instanceof ExchangeRefused && /subject token/.test(error.message),
  );
});

Deno.test("authenticator: a token is verified once while it holds, a certificate is one identity", async () => {
  const nowhere = { remote: "127.0.0.1" } as Connection;
  let asked = 0;
  const verify = () => {
    asked++;
    const identity = { subject: "alice", scopes: ["api"], method: "token" };
    return { identity, expires: Date.now() + 60_000 };
  };
  const authenticator = new Authenticator({ verifiers: [{ verify }], methods: ["token", "mtls"] });
  const request = new Request("http://svc.example/", { headers: { authorization: "Bearer t" } });
  const first = await authenticator.identify(request, nowhere, false);
  assert.equal(authenticator.identify(request, nowhere, false), first);
  assert.equal(asked, 1);
  const connection = { ...nowhere, certificate: { commonName: "bob" } };
  const plain = new Request("http://svc.example/");
  const bob = await authenticator.identify(plain, connection, false);
  assert.equal(await authenticator.identify(plain, connection, false), bob);
});

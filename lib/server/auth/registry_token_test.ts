/** What a registry token is bounded by besides its five minutes. */
import assert from "node:assert/strict";
import { Authenticator } from "../../auth/authenticator.ts";
import { InstallationSecret } from "../../auth/installation_secret.ts";
import { OwnTokens } from "../../auth/own_tokens.ts";
import type { Context } from "../route.ts";
import { registryTokenRoutes } from "./routes.ts";

Deno.test("a registry token for a client certificate ends with it", async () => {
  const tokens = new OwnTokens({ secret: new InstallationSecret("of the registry tokens' test") });
  const authenticator = new Authenticator({ verifiers: [tokens], methods: ["mtls"] });
  const [{ handler }] = registryTokenRoutes({ authenticator, tokens });
  const seconds = async (until: number) => {
    const certificate = { commonName: "alice", until };
    const context = { request: new Request("http://h/"), connection: { remote: "", certificate } };
    const response = await handler(context as unknown as Context);
    return (await response.json() as { expires_in: number }).expires_in;
  };
  assert((await seconds(Date.now() + 20_000)) <= 20);
  assert.equal(await seconds(Date.now() + 3_600_000), 300);
});

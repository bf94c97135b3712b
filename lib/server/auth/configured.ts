/** From the server's options to its `Access`. */
import { ConfiguredAccess } from "../../auth/access.ts";
import { Authenticator } from "../../auth/authenticator.ts";
import { readConfigured } from "../../auth/document.ts";
import { loadInstallationSecret } from "../../auth/installation_secret.ts";
import { OwnTokens } from "../../auth/own_tokens.ts";
import { parsePolicy, type Policy } from "../../auth/policy.ts";
import { staticToken } from "../../auth/static_token.ts";
import type { Verifier } from "../../auth/verifier.ts";
import type { Logger } from "../../base/log.ts";
import type { ServerConfig } from "../../config/server_options.ts";
import type { ServerAuth, ServerAuthOptions } from "../auth.ts";
import { jwtVerifier, wantsJwt } from "./jwt.ts";
import { REGISTRY_TOKENS, registryTokenRoutes } from "./routes.ts";

async function policyOf({ apiPolicy }: ServerConfig): Promise<Policy | undefined> {
  if (apiPolicy === undefined) return undefined;
  if (/^\s*\{|\n/.test(apiPolicy)) return await parsePolicy(apiPolicy, "SVC_API_POLICY");
  return await parsePolicy(await readConfigured(apiPolicy, "SVC_API_POLICY"), apiPolicy);
}

function anonymousPulls(config: ServerConfig, policy: Policy | undefined, log: Logger): boolean {
  if (!config.registryAnonymousPull) return false;
  if (!policy?.restrictsPull) return true;
  log.warn("SVC_REGISTRY_ANONYMOUS_PULL has no effect: a rule of SVC_API_POLICY names pull");
  return false;
}

/** Throws `config_invalid` for what cannot be read: a server never starts more open than it was told to. */
export async function configureAuth(
  { config, dataDir, log }: ServerAuthOptions,
): Promise<ServerAuth> {
  await using cleanup = new AsyncDisposableStack();
  const policy = await policyOf(config);
  const verifiers: Verifier[] = [];
  if (config.authToken !== undefined) verifiers.push(staticToken(config.authToken));
  if (wantsJwt(config)) {
    const { verifier, sources } = await jwtVerifier(config, log);
    for (const source of sources) cleanup.use(source);
    verifiers.push(verifier);
  }
  const certificates = config.tlsClientCa !== undefined;
  if (verifiers.length === 0 && !certificates) {
    log.warn("SVC_API_POLICY denies every action: without authentication nobody has an identity");
    return { access: new ConfiguredAccess({ policy }), routes: [], ...disposal(cleanup.move()) };
  }
  const tokens = new OwnTokens({
    secret: await loadInstallationSecret({
      dataDir,
      configured: config.installationSecret,
      warn: (message) => log.warn(message),
    }),
  });
  const authenticator = new Authenticator({ verifiers: [...verifiers, tokens], certificates });
  const anonymousPull = anonymousPulls(config, policy, log);
  const registryTokens = anonymousPull ? REGISTRY_TOKENS : undefined;
  return {
    access: new ConfiguredAccess({ authenticator, policy, anonymousPull, registryTokens }),
    routes: anonymousPull ? registryTokenRoutes({ authenticator, tokens }) : [],
    ...disposal(cleanup.move()),
  };
}

const disposal = (stack: AsyncDisposableStack): AsyncDisposable => ({
  [Symbol.asyncDispose]: () => stack.disposeAsync(),
});

/** From the server's options to its `Access`. */
import { join } from "node:path";
import { SSHSIG_NAMESPACE } from "../../api/auth.ts";
import { ConfiguredAccess } from "../../auth/access.ts";
import { Authenticator } from "../../auth/authenticator.ts";
import { readConfigured } from "../../auth/document.ts";
import { loadInstallationSecret } from "../../auth/installation_secret.ts";
import { InternalCredentials } from "../../auth/internal.ts";
import { OwnTokens } from "../../auth/own_tokens.ts";
import { parsePolicy, type Policy } from "../../auth/policy.ts";
import { grantsScope } from "../../auth/scope.ts";
import { KeyStore } from "../../auth/ssh/key_store.ts";
import { Sessions } from "../../auth/ssh/sessions.ts";
import { staticToken } from "../../auth/static_token.ts";
import type { Verifier } from "../../auth/verifier.ts";
import type { Logger } from "../../base/log.ts";
import type { AuthSettings, KeyAuth, ServerAuth, ServerAuthOptions } from "../auth.ts";
import type { Route } from "../route.ts";
import { jwtVerifier, wantsJwt } from "./jwt.ts";
import {
  CHALLENGE,
  exchangeRoutes,
  keyRoutes,
  REGISTRY_TOKENS,
  registryTokenRoutes,
  SESSION,
  TOKEN_ENDPOINT,
} from "./routes.ts";

async function policyOf({ apiPolicy }: AuthSettings): Promise<Policy | undefined> {
  if (apiPolicy === undefined) return undefined;
  if (/^\s*\{|\n/.test(apiPolicy)) return await parsePolicy(apiPolicy, "SVC_API_POLICY");
  return await parsePolicy(await readConfigured(apiPolicy, "SVC_API_POLICY"), apiPolicy);
}

function anonymousPulls(config: AuthSettings, policy: Policy | undefined, log: Logger): boolean {
  if (!config.registryAnonymousPull) return false;
  if (!policy?.restrictsPull) return true;
  log.warn("SVC_REGISTRY_ANONYMOUS_PULL has no effect: a rule of SVC_API_POLICY names pull");
  return false;
}

async function openKeys(
  config: AuthSettings,
  dataDir: string,
  { file }: KeyAuth,
  log: Logger,
): Promise<KeyStore> {
  return await KeyStore.open({
    declared: config.authorizedKeys,
    file: file ? join(dataDir, "auth", "authorized_keys") : undefined,
    log,
  });
}

/** Whether the key of a session is still enrolled for that identity and these scopes. */
const keyCheck =
  (keys: KeyStore | undefined) =>
  (fingerprint: string, subject: string, scopes: readonly string[]): boolean => {
    const key = keys?.find(fingerprint);
    return key !== undefined && key.name === subject &&
      scopes.every((scope) => grantsScope(key.scopes, scope));
  };

/** Throws `config_invalid` for files that cannot be read: the server never starts more open than configured. */
export async function configureAuth(
  { config, dataDir, log }: ServerAuthOptions,
  keyAuth: KeyAuth | undefined,
): Promise<ServerAuth> {
  await using cleanup = new AsyncDisposableStack();
  const policy = await policyOf(config);
  const verifiers: Verifier[] = [];
  if (config.authToken !== undefined) verifiers.push(staticToken(config.authToken));
  const jwt = wantsJwt(config);
  if (jwt) {
    const { verifier, sources } = await jwtVerifier(config, log);
    for (const source of sources) cleanup.use(source);
    verifiers.push(verifier);
  }
  const keys = keyAuth && cleanup.use(await openKeys(config, dataDir, keyAuth, log));
  const certificates = config.tlsClientCa !== undefined;
  if (verifiers.length === 0 && !certificates && !keys) {
    log.warn("SVC_API_POLICY denies every action: without authentication nobody has an identity");
    return { access: new ConfiguredAccess({ policy }), routes: [], ...disposal(cleanup.move()) };
  }
  const secret = await loadInstallationSecret({
    dataDir,
    configured: config.installationSecret,
    warn: (message) => log.warn(message),
  });
  const tokens = new OwnTokens({ secret, hasKey: keyCheck(keys) });
  const authenticator = new Authenticator({
    verifiers: [...verifiers, tokens],
    methods: [
      ...config.authToken !== undefined ? ["token"] as const : [],
      ...jwt ? ["jwt"] as const : [],
      ...certificates ? ["mtls"] as const : [],
      ...keys ? ["ssh-key"] as const : [],
    ],
  });
  const anonymousPull = anonymousPulls(config, policy, log);
  const keyMaxAge = config.authKeyMaxAge;
  const routes: Route[] = [
    ...anonymousPull ? registryTokenRoutes({ authenticator, tokens }) : [],
    ...jwt ? exchangeRoutes({ authenticator, tokens, policy }) : [],
    ...keys
      ? keyRoutes({ keys, sessions: new Sessions({ secret, keys, tokens }), policy, keyMaxAge })
      : [],
  ];
  return {
    access: new ConfiguredAccess({
      authenticator,
      policy,
      anonymousPull,
      registryTokens: anonymousPull ? REGISTRY_TOKENS : undefined,
      endpoints: {
        tokenEndpoint: jwt ? TOKEN_ENDPOINT : undefined,
        keyAuth: keys && { challenge: CHALLENGE, session: SESSION, namespace: SSHSIG_NAMESPACE },
      },
    }),
    routes,
    internal: new InternalCredentials(secret),
    ...disposal(cleanup.move()),
  };
}

const disposal = (stack: AsyncDisposableStack): AsyncDisposable => ({
  [Symbol.asyncDispose]: () => stack.disposeAsync(),
});

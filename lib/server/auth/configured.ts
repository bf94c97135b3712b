/** From the server's options to its `Access`. */
import { ConfiguredAccess } from "../../auth/access.ts";
import { Authenticator } from "../../auth/authenticator.ts";
import { readConfigured } from "../../auth/document.ts";
import { parsePolicy, type Policy } from "../../auth/policy.ts";
import { staticToken } from "../../auth/static_token.ts";
import type { Verifier } from "../../auth/verifier.ts";
import type { ServerConfig } from "../../config/server_options.ts";
import type { ServerAuth, ServerAuthOptions } from "../auth.ts";

async function policyOf({ apiPolicy }: ServerConfig): Promise<Policy | undefined> {
  if (apiPolicy === undefined) return undefined;
  if (/^\s*\{|\n/.test(apiPolicy)) return await parsePolicy(apiPolicy, "SVC_API_POLICY");
  return await parsePolicy(await readConfigured(apiPolicy, "SVC_API_POLICY"), apiPolicy);
}

/** Throws `config_invalid` for what cannot be read: a server never starts more open than it was told to. */
export async function configureAuth({ config, log }: ServerAuthOptions): Promise<ServerAuth> {
  const policy = await policyOf(config);
  const verifiers: Verifier[] = [];
  if (config.authToken !== undefined) verifiers.push(staticToken(config.authToken));
  const authenticator = verifiers.length > 0 ? new Authenticator({ verifiers }) : undefined;
  if (policy && !authenticator) {
    log.warn("SVC_API_POLICY denies every action: without authentication nobody has an identity");
  }
  let anonymousPull = config.registryAnonymousPull;
  if (anonymousPull && policy?.restrictsPull) {
    log.warn("SVC_REGISTRY_ANONYMOUS_PULL has no effect: a rule of SVC_API_POLICY names pull");
    anonymousPull = false;
  }
  return {
    access: new ConfiguredAccess({ authenticator, policy, anonymousPull }),
    routes: [],
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

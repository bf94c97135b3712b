/** SVC_JWT_…: keys and rules to a verifier. */
import { readConfigured } from "../../auth/document.ts";
import { publicKey, sharedSecret } from "../../auth/jwt/fixed_key.ts";
import type { KeySource } from "../../auth/jwt/key_source.ts";
import { keySetFile } from "../../auth/jwt/key_set_file.ts";
import { KeySetUrl } from "../../auth/jwt/key_set_url.ts";
import { parseScopeMap } from "../../auth/jwt/scope_map.ts";
import { JwtVerifier } from "../../auth/jwt/verifier.ts";
import { parseScopes } from "../../auth/scope.ts";
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { AuthSettings } from "../auth.ts";

const KEYS = [
  "SVC_JWT_HS256_SECRET",
  "SVC_JWT_PUBLIC_KEY",
  "SVC_JWT_JWKS_FILE",
  "SVC_JWT_JWKS_URL",
].join(", ");

/** Options that restrict which tokens are accepted. They mean nothing without a key. */
const RULES: [keyof AuthSettings, string][] = [
  ["jwtIssuer", "SVC_JWT_ISSUER"],
  ["jwtAudience", "SVC_JWT_AUDIENCE"],
  ["jwtScopeMap", "SVC_JWT_SCOPE_MAP"],
  ["jwtDefaultScope", "SVC_JWT_DEFAULT_SCOPE"],
];

export function wantsJwt(config: AuthSettings): boolean {
  const { jwtHs256Secret, jwtPublicKey, jwtJwksFile, jwtJwksUrl } = config;
  return [jwtHs256Secret, jwtPublicKey, jwtJwksFile, jwtJwksUrl].some((key) => key !== undefined) ||
    RULES.some(([key]) => config[key] !== undefined);
}

function warn(config: AuthSettings, log: Logger): void {
  const { jwtHs256Secret: secret, jwtJwksFile, jwtJwksUrl, jwtAudience } = config;
  if (secret !== undefined && new TextEncoder().encode(secret).length < 32) {
    log.warn("SVC_JWT_HS256_SECRET has fewer than 32 bytes: it can be guessed from a token");
  }
  if ((jwtJwksFile ?? jwtJwksUrl) !== undefined && jwtAudience === undefined) {
    log.warn("SVC_JWT_AUDIENCE is not set: tokens that were made for other services are accepted");
  }
  if (jwtJwksUrl?.startsWith("http:") && !/^http:\/\/(localhost|127\.|\[::1\])/.test(jwtJwksUrl)) {
    log.warn(
      "SVC_JWT_JWKS_URL is fetched without TLS: anyone on the network path can forge tokens",
    );
  }
}

/** Throws `config_invalid`. The caller disposes of the key sources. */
export async function jwtVerifier(
  config: AuthSettings,
  log: Logger,
): Promise<{ verifier: JwtVerifier; sources: KeySource[] }> {
  const { jwtHs256Secret, jwtPublicKey, jwtJwksFile, jwtJwksUrl } = config;
  const sources: KeySource[] = [];
  if (jwtHs256Secret !== undefined) sources.push(sharedSecret(jwtHs256Secret));
  if (jwtPublicKey !== undefined) {
    sources.push(publicKey(await readConfigured(jwtPublicKey, "SVC_JWT_PUBLIC_KEY"), jwtPublicKey));
  }
  if (sources.length === 0 && jwtJwksFile === undefined && jwtJwksUrl === undefined) {
    const [, name] = RULES.find(([key]) => config[key] !== undefined)!;
    throw new SvcError("config_invalid", `Cannot use ${name}: no key verifies tokens`, {
      help: `set one of ${KEYS}`,
    });
  }
  const defaultScopes = config.jwtDefaultScope === undefined
    ? undefined
    : scopesOf(config.jwtDefaultScope);
  const { jwtScopeMap: path } = config;
  const scopeMap = path === undefined
    ? undefined
    : await parseScopeMap(await readConfigured(path, "SVC_JWT_SCOPE_MAP"), path);
  if (!scopeMap && !defaultScopes && (jwtJwksFile ?? jwtJwksUrl) !== undefined) {
    const name = jwtJwksFile === undefined ? "SVC_JWT_JWKS_URL" : "SVC_JWT_JWKS_FILE";
    throw new SvcError(
      "config_invalid",
      `Cannot use ${name}: its tokens carry no svc scope, and nothing maps them to one`,
      { help: "set SVC_JWT_SCOPE_MAP or SVC_JWT_DEFAULT_SCOPE" },
    );
  }
  warn(config, log);
  if (jwtJwksFile !== undefined) sources.push(await keySetFile(jwtJwksFile, { log }));
  if (jwtJwksUrl !== undefined) sources.push(new KeySetUrl(jwtJwksUrl, { log }));
  const { jwtIssuer: issuer, jwtAudience: audience, jwtAllowNoExpiry: allowNoExpiry } = config;
  const rules = { issuer, audience, scopeMap, defaultScopes, allowNoExpiry };
  return {
    verifier: new JwtVerifier({ sources, ...rules }),
    sources,
  };
}

function scopesOf(text: string) {
  try {
    return parseScopes(text, "SVC_JWT_DEFAULT_SCOPE");
  } catch (cause) {
    const { message, help } = cause as SvcError;
    throw new SvcError("config_invalid", message, { cause, help });
  }
}

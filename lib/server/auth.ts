/** A server's `Access`: open, or what the options ask for. */
import { join } from "node:path";
import { exists } from "../base/fs.ts";
import type { InternalCredentials } from "../auth/internal.ts";
import type { Logger } from "../base/log.ts";
import { AUTH, TLS } from "../config/server/auth.ts";
import { LISTENER } from "../config/server/general.ts";
import type { SettingsOf } from "../config/table.ts";
import { type Access, openAccess } from "./access.ts";
import type { Route } from "./route.ts";

/** The options that this module reads. */
export const AUTH_READS = [AUTH, TLS, LISTENER] as const;

export type AuthSettings = SettingsOf<typeof AUTH_READS>;

export interface ServerAuthOptions {
  config: AuthSettings;
  /** The data directory. */
  dataDir: string;
  log: Logger;
}

export interface ServerAuth extends AsyncDisposable {
  access: Access;
  /** Routes that exist because of the configured authentication. */
  routes: Route[];
  /** The server's own credentials for its registry. Absent: its registry needs none. */
  internal?: InternalCredentials;
}

const OPEN: ServerAuth = {
  access: openAccess,
  routes: [],
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** Each of these options requires a credential from callers. */
const ASKING = [
  "tlsClientCa",
  "authToken",
  "apiPolicy",
  "jwtIssuer",
  "jwtAudience",
  "jwtHs256Secret",
  "jwtPublicKey",
  "jwtJwksFile",
  "jwtJwksUrl",
  "jwtScopeMap",
  "jwtDefaultScope",
] as const satisfies (keyof AuthSettings)[];

/** Where SSH keys may come from. */
export interface KeyAuth {
  /** Keys can be enrolled, in `<data-dir>/auth/authorized_keys`. */
  file: boolean;
}

/**
 * SPEC "Authentication", SVC_AUTH_KEYSTORE. Unset: keys are kept in the file where keys are configured or the
 * file exists.
 */
async function keyAuthOf(
  { authKeystore, authorizedKeys }: AuthSettings,
  dataDir: string,
): Promise<KeyAuth | undefined> {
  const declared = authorizedKeys !== undefined;
  if (authKeystore === "none") return declared ? { file: false } : undefined;
  const file = authKeystore === "file" || declared ||
    await exists(join(dataDir, "auth", "authorized_keys"));
  return file ? { file } : undefined;
}

/** Loads no authentication code where none is configured. Throws `config_invalid`. */
export async function openServerAuth(options: ServerAuthOptions): Promise<ServerAuth> {
  const { dataDir, log } = options;
  const keyAuth = await keyAuthOf(options.config, dataDir);
  const config = { ...options.config };
  const { authTokenFile } = config;
  if (config.authToken === undefined && authTokenFile !== undefined) {
    const make = !keyAuth &&
      ASKING.every((key) => key === "apiPolicy" || config[key] === undefined);
    const { tokenFromFile } = await import("./auth/token_file.ts");
    config.authToken = await tokenFromFile(authTokenFile, config, { make, log });
  }
  if (!keyAuth && ASKING.every((key) => config[key] === undefined)) return OPEN;
  const { configureAuth } = await import("./auth/configured.ts");
  return await configureAuth({ ...options, config }, keyAuth);
}

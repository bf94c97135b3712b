/** A server's `Access`: open, or what the options ask for. */
import { join } from "node:path";
import { exists } from "../base/fs.ts";
import type { InternalCredentials } from "../auth/internal.ts";
import type { Logger } from "../base/log.ts";
import type { ServerConfig } from "../config/server_options.ts";
import { type Access, openAccess } from "./access.ts";
import type { Route } from "./route.ts";

export interface ServerAuthOptions {
  config: ServerConfig;
  /** The data directory. */
  dataDir: string;
  log: Logger;
}

export interface ServerAuth extends AsyncDisposable {
  access: Access;
  /** Rows that this server has because of what is configured. */
  routes: Route[];
  /** The server's own credentials for its registry; absent: none is asked for there. */
  internal?: InternalCredentials;
}

const OPEN: ServerAuth = {
  access: openAccess,
  routes: [],
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** Any of these asks for more than an open server. */
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
] as const satisfies (keyof ServerConfig)[];

/** What SSH keys are good for here. */
export interface KeyAuth {
  /** Keys can be enrolled, in `<data-dir>/auth/authorized_keys`. */
  file: boolean;
}

/** SPEC "Authentication", SVC_AUTH_KEYSTORE: unset, the file is used where keys are, or where it is. */
async function keyAuthOf(
  { authKeystore, authorizedKeys }: ServerConfig,
  dataDir: string,
): Promise<KeyAuth | undefined> {
  const declared = authorizedKeys !== undefined;
  if (authKeystore === "none") return declared ? { file: false } : undefined;
  const file = authKeystore === "file" || declared ||
    await exists(join(dataDir, "auth", "authorized_keys"));
  return file ? { file } : undefined;
}

/** Loads nothing of authentication where none is configured. Throws `config_invalid`. */
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

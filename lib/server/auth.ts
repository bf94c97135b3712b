/** A server's `Access`: open, or what the options ask for. */
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

function isWanted(config: ServerConfig): boolean {
  return ASKING.some((key) => config[key] !== undefined);
}

/** Loads nothing of authentication where none is configured. Throws `config_invalid`. */
export async function openServerAuth(options: ServerAuthOptions): Promise<ServerAuth> {
  if (!isWanted(options.config)) return OPEN;
  const { configureAuth } = await import("./auth/configured.ts");
  return await configureAuth(options);
}

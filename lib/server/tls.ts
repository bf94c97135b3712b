/** SVC_TLS_…: plain HTTP, or the files that HTTPS is served with. */
import type { Logger } from "../base/log.ts";
import type { ServerConfig } from "../config/server_options.ts";
import { openTlsFiles, type TlsFiles } from "./http/tls.ts";

type TlsConfig = Pick<ServerConfig, "tlsCert" | "tlsKey" | "tlsClientCa">;

/** Undefined where no TLS is configured. Throws `config_invalid` for files that are no good. */
export async function openServerTls(
  { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: TlsConfig,
  log: Logger,
): Promise<TlsFiles | undefined> {
  // Halves of it are refused with the options.
  if (cert === undefined || key === undefined) return undefined;
  return await openTlsFiles({ cert, key, clientCa }, { log });
}

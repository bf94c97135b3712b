/** SVC_TLS_…: plain HTTP, or the files that HTTPS is served with. */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import type { ServerConfig } from "../config/server_options.ts";
import { openTlsFiles, type TlsFiles } from "./http/tls.ts";

type TlsConfig = Pick<ServerConfig, "tlsCert" | "tlsKey" | "tlsClientCa">;

/** Undefined where no TLS is configured. Throws `config_invalid` for half of it, and for bad files. */
export async function openServerTls(
  { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: TlsConfig,
  log: Logger,
): Promise<TlsFiles | undefined> {
  if (cert === undefined && key === undefined && clientCa === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const [given, lacking] = cert !== undefined
      ? ["--tls-cert", "--tls-key"]
      : key !== undefined
      ? ["--tls-key", "--tls-cert"]
      : ["--tls-client-ca", "--tls-cert and --tls-key"];
    throw new SvcError("config_invalid", `Cannot use ${given}: ${lacking} is not set`, {
      help: "HTTPS needs a certificate and its key; client certificates need HTTPS",
    });
  }
  return await openTlsFiles({ cert, key, clientCa }, { log });
}

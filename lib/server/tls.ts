/** SVC_TLS_…: plain HTTP, or the files that HTTPS is served with. */
import type { Logger } from "../base/log.ts";
import type { TLS } from "../config/server/auth.ts";
import type { SettingsOf } from "../config/table.ts";
import { openTlsFiles, type TlsFiles } from "./http/tls.ts";

type TlsSettings = SettingsOf<[typeof TLS]>;

/** Undefined where no TLS is configured. Throws `config_invalid` for bad files. */
export async function openServerTls(
  { tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: TlsSettings,
  log: Logger,
): Promise<TlsFiles | undefined> {
  // A certificate without a key, or the reverse, was refused when the options were read.
  if (cert === undefined || key === undefined) return undefined;
  return await openTlsFiles({ cert, key, clientCa }, { log });
}

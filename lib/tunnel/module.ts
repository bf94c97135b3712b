/** How the composition root opens a tunnel backend: what a row of `backends/tunnel/mod.ts` loads. */
import type { Logger } from "../base/log.ts";
import type { Tunnel } from "./tunnel.ts";

/** Values of the server's options that backends read, by the options' keys. */
export interface TunnelSettings {
  tunnelSshAddr?: string;
  tunnelSshUser?: string;
  tunnelSshBind: string;
  tunnelSshUrlTemplate?: string;
  tunnelSshUrlFromSession: boolean;
  tunnelSshHostkey?: string;
  tunnelSshKnownHosts?: string;
  tunnelSshInsecure: boolean;
}

export interface TunnelModule {
  /** Throws `config_invalid` where the settings do not do. */
  create: (settings: TunnelSettings, log: Logger) => Tunnel;
}

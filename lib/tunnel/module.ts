/** How the composition root opens a tunnel backend: what a row of `backends/tunnel/mod.ts` loads. */
import type { Logger } from "../base/log.ts";
import type { Tunnel } from "./tunnel.ts";

export interface TunnelModule {
  /** Throws `config_invalid` for invalid settings. */
  create: (log: Logger) => Tunnel;
}

/** Settings of the bare backend. */
import type { HostConfig } from "../../../lib/deploy/host/config.ts";
import type { StatsSource } from "./usage.ts";

/** Values of the server's options of the same names. */
export interface BareConfig extends HostConfig {
  /** SVC_RUNTIME. */
  runtime: string;
  systemdCgroup: boolean;
  /** SVC_BARE_STATS_SOURCE; absent: by the runtime's name. */
  statsSource?: StatsSource;
  /** SVC_WORKLOAD_START_TIMEOUT, in milliseconds. */
  startMs: number;
  /** Words of the command that restarts a container while no server runs (SVC_BARE_SHIM); absent: none does. */
  shim?: readonly string[];
}

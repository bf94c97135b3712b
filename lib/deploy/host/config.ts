/** Settings of a host engine. */

/** Values of the server's options of the same names. */
export interface HostConfig {
  cniBinDir: string;
  cniSubnetBase: string;
  /** SVC_BARE_DNS. */
  dns: boolean;
  allowBindSources: readonly string[];
  /** Kinds of lib/deploy/privileges.ts. */
  allowPrivileged: readonly string[];
  /** SVC_WORKLOAD_PIDS_LIMIT; 0: no limit. */
  pidsLimit: number;
  /** Milliseconds that a replacement has to listen where its predecessor does; default 5 minutes. */
  takeOverMs?: number;
}

/** Workloads as a conduit reaches them: by a deployment's name and a port inside its instance. */
import type { DeploymentStatus } from "../../api/deployment.ts";
import type { Duplex } from "../../wire/duplex.ts";

export interface Services {
  /**
   * A connection to a port inside the deployment's first running instance. Each direction of a TCP
   * connection ends by itself; of UDP each `read` and `write` is one datagram. Throws what stands in the
   * way: `not_found`, `upstream_failed` where nothing listens there.
   */
  dial(
    name: string,
    port: number,
    protocol: "tcp" | "udp",
    signal?: AbortSignal,
  ): Promise<Duplex>;
  /** The deployments there are now, asked of the server. */
  list(): Promise<DeploymentStatus[]>;
}

/** Workloads as a conduit reaches them: by a deployment's name and a port inside its instance. */
import type { DeploymentStatus } from "../../api/deployment.ts";
import type { Duplex } from "../../wire/duplex.ts";

export interface Services {
  /**
   * Connects to a port inside an instance of the deployment, the instances in turn. Each direction of a TCP
   * connection ends by itself; over UDP each `read` and `write` is one datagram. Throws `not_found`, or
   * `upstream_failed` where nothing listens on the port.
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

/** Whether published ports would be reachable: a server in a container may have a network of its own. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { inContainer, inFirstNetwork } from "../../sys/contained.ts";

export interface OwnNetworkOptions {
  /** SVC_HOST_NETWORK: "1" or "0"; absent: it is found out. */
  hostNetwork?: string;
  /** The backend's name. */
  backend: string;
  log: Logger;
  /** Whether this process is isolated; tests give another answer. */
  isolated?: () => Promise<boolean>;
}

const isolatedHere = async () => !await inFirstNetwork() && await inContainer();

/**
 * For backends that make their containers' networks themselves: those would be networks within the server's
 * container. Throws `prerequisite_missing` where the server is in a container with a network of its own and
 * SVC_HOST_NETWORK says nothing.
 */
export async function checkOwnNetwork(options: OwnNetworkOptions): Promise<void> {
  const { hostNetwork, backend, log, isolated = isolatedHere } = options;
  if (hostNetwork === "1") return;
  if (hostNetwork === "0") {
    log.warn("published ports are reachable inside this server's container only", {
      reason: "SVC_HOST_NETWORK=0",
    });
    return;
  }
  if (!await isolated()) return;
  throw new SvcError(
    "prerequisite_missing",
    `Cannot serve with SVC_DEPLOY_BACKEND=${backend}: this server's container has a network of its own, ` +
      "where published ports are reachable from inside the container only",
    {
      help: "run the container in the host's network (docker run --network host); or set " +
        "SVC_HOST_NETWORK=0 to start all the same, or 1 where this is the host's network",
    },
  );
}

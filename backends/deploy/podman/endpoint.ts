/** Where podman's API service listens: SVC_PODMAN_SOCKET, or a service that the server runs itself. */
import { SvcError } from "../../../lib/base/errors.ts";
import { type DockerEndpoint, dockerEndpoint } from "../../../lib/docker/endpoint.ts";

/** The socket of root's service on a host that is reached by SSH. */
const REMOTE_SOCKET = "/run/podman/podman.sock";

export interface PodmanPlace {
  /** SVC_PODMAN_SOCKET; empty: not set. */
  socket: string;
  /** SVC_PODMAN_SERVICE. */
  service: boolean;
}

function refused(reason: string, help: string): SvcError {
  return new SvcError("config_invalid", `Cannot use the podman backend: ${reason}`, { help });
}

/**
 * Undefined: the server runs the service itself. Throws `config_invalid` for neither and for both: nothing is
 * looked for, so that no other podman than the one that was meant runs the workloads.
 */
export function podmanEndpoint({ socket, service }: PodmanPlace): DockerEndpoint | undefined {
  if (socket !== "" && service) {
    throw refused(
      "SVC_PODMAN_SOCKET and SVC_PODMAN_SERVICE exclude each other",
      "set SVC_PODMAN_SOCKET to use a service that runs, or SVC_PODMAN_SERVICE for one of this server's own",
    );
  }
  if (service) return undefined;
  if (socket === "") {
    throw refused(
      "neither SVC_PODMAN_SOCKET nor SVC_PODMAN_SERVICE is set",
      "set SVC_PODMAN_SOCKET to the API's socket, or SVC_PODMAN_SERVICE=1 to have this server run podman's service",
    );
  }
  const host = socket.startsWith("/") ? `unix://${socket}` : socket;
  const scheme = /^[a-z]+:\/\//.exec(host)?.[0];
  if (scheme !== "unix://" && scheme !== "tcp://" && scheme !== "ssh://") {
    throw refused(
      `SVC_PODMAN_SOCKET ${JSON.stringify(socket)} is none of the forms it may have`,
      "write it as /path, unix:///path, tcp://host:port or ssh://user@host[:port][/path]",
    );
  }
  const bare = scheme === "ssh://" && /^ssh:\/\/[^/]+\/?$/.test(host);
  const named = bare ? `${host.replace(/\/$/, "")}${REMOTE_SOCKET}` : host;
  const endpoint = dockerEndpoint({ host: named }, "SVC_PODMAN_SOCKET");
  return { ...endpoint, address: socket };
}

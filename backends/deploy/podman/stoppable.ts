/** Whether podman can end what it starts. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { DockerClient } from "../../../lib/docker/client.ts";
import { isRootless } from "../../../lib/docker/rootless.ts";
import { LIBPOD } from "./api.ts";

/**
 * Throws `unsupported` for the host's processes on a rootless podman without control groups: without a process
 * namespace these alone tell which processes are the container's. Podman 5 cannot remove such a container, and 4
 * removes it while its processes go on.
 */
export async function requireStoppable(
  client: DockerClient,
  { name, pidMode }: Pick<DeploySpec, "name" | "pidMode">,
): Promise<void> {
  if (pidMode !== "host") return;
  const attempted = `Cannot deploy ${name}`;
  if (!await isRootless(client, attempted)) return;
  const { host } = await client.json<{ host?: { cgroupControllers?: string[] | null } }>({
    path: `${LIBPOD}/info`,
    unversioned: true,
    attempted,
  });
  if (host?.cgroupControllers?.includes("pids")) return;
  throw new SvcError(
    "unsupported",
    `${attempted}: pidMode host: a rootless podman without control groups of its own could not stop it`,
    {
      help: "leave pidMode out, have the host delegate the controller pids to podman's user " +
        "(Delegate= of systemd), or use podman as root",
    },
  );
}

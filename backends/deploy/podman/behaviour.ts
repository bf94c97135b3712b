/** What podman does otherwise than Docker; docs/decisions/podman-api.md has the measurements. */
import type { DockerClient } from "../../../lib/docker/client.ts";
import type { DockerEvent } from "../../../lib/docker/events.ts";
import { readMessages } from "../../../lib/docker/messages.ts";
import type { EngineBehaviour } from "../shared/engine_api/behaviour.ts";
import type { Inspected } from "../shared/engine_api/inspect.ts";
import { LIBPOD } from "./api.ts";
import { requireReachable } from "./reach.ts";
import { requireStoppable } from "./stoppable.ts";

/** Milliseconds within which podman starts a container again that is to be. */
const RESTART_MS = 2000;

/** As a shell has it. */
const KILLED = 137;

/** Podman would start it again, if nobody has stopped it. */
function isDue({ State, HostConfig, RestartCount }: Inspected): boolean {
  const { Name = "no", MaximumRetryCount = 0 } = HostConfig.RestartPolicy ?? {};
  if (Name === "on-failure") {
    return State.ExitCode !== 0 && (MaximumRetryCount === 0 || RestartCount < MaximumRetryCount);
  }
  return Name === "always" || Name === "unless-stopped";
}

/**
 * Podman has no state for a container that it is about to start again; an `Error` that is about calls, not about
 * the container; and an empty health for one without a check.
 */
function inspected(found: Inspected, settled: boolean, before?: Inspected): Inspected {
  const { Health, ...State } = found.State;
  const { FinishedAt } = State;
  const ended = State.Status === "stopped" || State.Status === "exited";
  const over = settled ||
    before?.State.Status === "exited" && before.State.FinishedAt === FinishedAt;
  // An end that is to come is one of before the clock was set back.
  const age = Date.now() - Date.parse(FinishedAt);
  const fresh = age < RESTART_MS && age > -RESTART_MS;
  const due = ended && !over && fresh && isDue(found);
  return {
    ...found,
    State: {
      ...State,
      Error: "",
      ...(due && { Status: "restarting", Running: true, Restarting: true }),
      ...(ended && !due && { Status: "exited" }),
      ...(Health?.Status && { Health }),
    },
  };
}

/** Where no event tells it, the command ended with its container. */
async function forgottenExec(
  client: DockerClient,
  container: string,
  exec: string,
): Promise<number> {
  const attempted = "Cannot find out how a command ended";
  const body = await client.stream({
    path: "/events",
    query: {
      stream: "false",
      since: "1",
      filters: { container: [container], event: ["exec_died"] },
    },
    attempted,
  });
  for await (const { Actor: { Attributes } } of readMessages<DockerEvent>(body, attempted)) {
    if (Attributes.execID === exec) return Number(Attributes.containerExitCode);
  }
  return KILLED;
}

export const PODMAN_ENGINE: EngineBehaviour = {
  name: "podman",
  product: "podman",
  // The default may be the journal, which needs systemd, or nothing.
  logDriver: () => "k8s-file",
  ownTail: true,
  // By Docker's call 4.3 runs ps in the container, and gives each of its lines as one column.
  processes: (path) => ({ path: `${LIBPOD}${path}`, unversioned: true }),
  initialise: async (client, container, signal) => {
    await client.run({
      method: "POST",
      path: `${LIBPOD}/containers/${container}/init`,
      unversioned: true,
      attempted: "Cannot prepare a container",
      signal,
    });
  },
  endsInput: true,
  looseArchives: true,
  // Podman 4 filters by its own name of a death, and tells Docker's.
  actions: { destroy: "remove", die: "died" },
  reasonsUntold: true,
  lateEvents: true,
  inspected,
  // Podman 4 has no such call; that of 5 fails for a user without control groups.
  fixedRestarts: true,
  serverMounts: true,
  // Podman leaves the times to timers of systemd, which a host, a container or a user may not have.
  probe: async (client, container, signal) => {
    await client.run({
      path: `${LIBPOD}/containers/${container}/healthcheck`,
      unversioned: true,
      attempted: "Cannot run a health check",
      headMs: Infinity,
      signal,
    });
  },
  // Docker's call gives it the time of a stop.
  removal: (id) => ({
    path: `${LIBPOD}/containers/${id}`,
    query: { force: true, volumes: true, timeout: 0 },
    unversioned: true,
  }),
  // Docker's call disconnects whoever uses the network.
  networkRemoval: (id) => ({ path: `${LIBPOD}/networks/${id}`, unversioned: true }),
  execRefusal: /OCI (runtime attempted to invoke a command that was not found|permission denied)/,
  forgottenExec,
  requireReachable,
  requireStoppable,
};

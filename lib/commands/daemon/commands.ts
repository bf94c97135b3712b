/** The commands of `svc daemon`. */
import { type Command, command } from "../command.ts";
import { DAEMON_DOCKER_OPTIONS } from "../daemon_options.ts";
import { NO_OPTIONS } from "../options.ts";

export const DAEMON_COMMANDS: readonly Command[] = [
  command({
    name: "status",
    usage: "[OPTIONS]",
    summary: "List what the agent holds: sessions, mounts, forwarded ports, and since when.",
    description:
      "States are connecting, connected, reconnecting and failed. An agent that was killed is started " +
      "again, and goes on with what it held.",
    options: NO_OPTIONS,
    examples: ["svc daemon status", "svc daemon status -o json"],
    run: () => import("./status.ts"),
  }),
  command({
    name: "stop",
    usage: "[OPTIONS]",
    summary: "End all that the agent holds, and the agent.",
    description:
      "Deployments of sessions are removed, as an interrupt of svc deploy --session removes them. " +
      "Other deployments stay; their forwarded ports end.",
    options: NO_OPTIONS,
    run: () => import("./stop.ts"),
  }),
  command({
    name: "docker",
    usage: "[OPTIONS]",
    summary: "Serve the Docker Engine API of the server on a Unix socket, until interrupted.",
    description:
      "docker, docker compose and programs that use Docker's API work with the server where " +
      "DOCKER_HOST names the socket. docs/docker-api.md says what is honoured and what is refused.",
    options: DAEMON_DOCKER_OPTIONS,
    examples: [
      "svc daemon docker &",
      "DOCKER_HOST=unix://$XDG_RUNTIME_DIR/svc-docker.sock docker ps",
    ],
    run: () => import("../daemon_docker.ts"),
  }),
  command({
    name: "run",
    usage: "[OPTIONS]",
    summary:
      "Be the agent. Commands start it when they need it, and it ends when it holds nothing.",
    options: NO_OPTIONS,
    run: () => import("./run.ts"),
  }),
];

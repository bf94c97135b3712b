/** The rows of the command table that look at workloads and change what runs. */
import { type Command, command } from "./command.ts";
import {
  EXEC_OPTIONS,
  LOGS_OPTIONS,
  NO_OPTIONS,
  REMOVE_OPTIONS,
  STATUS_OPTIONS,
} from "./options.ts";
import {
  ATTACH_OPTIONS,
  CP_OPTIONS,
  INSTANCE_OPTIONS,
  KILL_OPTIONS,
  MANAGED_OPTIONS,
  STATS_OPTIONS,
} from "./workload_options.ts";

const ONE_NAME = { min: 1, max: 1, names: "NAME" };
const NAMES = { min: 1, max: Infinity, names: "NAME" };
const ANY_NAMES = { min: 0, max: Infinity, names: "NAME" };

export const WORKLOAD_COMMANDS: readonly Command[] = [
  command({
    name: "ps",
    usage: "[OPTIONS]",
    summary: "List the deployments.",
    options: NO_OPTIONS,
    examples: ["svc ps", "svc ps --output json"],
    run: () => import("./ps.ts"),
  }),
  command({
    name: "status",
    usage: "[OPTIONS] NAME",
    summary: "Show a deployment, its ports and its instances, or its spec.",
    options: STATUS_OPTIONS,
    positionals: ONE_NAME,
    examples: ["svc status web", "svc status web -o yaml > app.yaml"],
    run: () => import("./status.ts"),
  }),
  command({
    name: "health",
    usage: "[OPTIONS] [NAME...]",
    summary: "Show the health of deployments; svc exits with 1 where one is not healthy.",
    description:
      "An instance that runs without a health check counts as healthy. Without NAME: all deployments " +
      "but stopped ones.",
    options: NO_OPTIONS,
    positionals: ANY_NAMES,
    examples: ["svc health", "svc health web && echo well"],
    run: () => import("./health.ts"),
  }),
  command({
    name: "logs",
    usage: "[OPTIONS] NAME",
    summary: "Show the output of a deployment.",
    options: LOGS_OPTIONS,
    positionals: ONE_NAME,
    examples: ["svc logs -f --tail 20 web", "svc logs --since 10m -t web"],
    run: () => import("./logs.ts"),
  }),
  command({
    name: "exec",
    usage: "[OPTIONS] NAME [COMMAND [ARG...]]",
    summary: "Run a command inside a running instance; svc exits with its exit code.",
    description:
      "With -it and without COMMAND an interactive shell is run: the first that exists of the " +
      "deployment's own (`shells` of its spec), those of the connection profile (`shells` of the " +
      "context), bash, ash and sh. Each of them is one command string, which is split into words as a " +
      "shell does, without expansion.",
    options: EXEC_OPTIONS,
    positionals: { min: 1, max: Infinity, names: "NAME" },
    passThroughAfter: 1,
    examples: ["svc exec web ls -la /", "svc exec -i web sh < script.sh", "svc exec -it web"],
    run: () => import("./exec.ts"),
  }),
  command({
    name: "attach",
    usage: "[OPTIONS] NAME",
    summary:
      "Follow the main process of an instance, and type into it; svc exits with its exit code.",
    description:
      "Shows output from now on; svc logs shows earlier output. Input needs `stdinOpen` in the spec, " +
      "and a terminal needs `tty`. To detach ends svc with 0, and leaves the process running.",
    options: ATTACH_OPTIONS,
    positionals: ONE_NAME,
    examples: ["svc attach web", "svc attach --no-stdin --sig-proxy=false web"],
    run: () => import("./attach.ts"),
  }),
  command({
    name: "cp",
    usage: "[OPTIONS] SRC DST",
    summary: "Copy files between this machine and an instance of a deployment.",
    description:
      "One of SRC and DST is NAME:PATH, or NAME/INSTANCE:PATH; the other is a path of this machine, or " +
      "- for a tar archive on standard input or output. A folder SRC is copied into DST where DST " +
      "exists, and as DST where it does not; SRC/. means the contents of the folder. Modes, links, " +
      "times and holes are kept. A path of this machine with a colon needs ./ before it.",
    options: CP_OPTIONS,
    positionals: { min: 2, max: 2, names: "SRC or DST" },
    examples: [
      "svc cp web:/etc/nginx/nginx.conf .",
      "svc cp ./site/. web:/srv/www",
      "svc cp -a db/db-0:/var/lib/data - | gzip > data.tar.gz",
    ],
    run: () => import("./cp.ts"),
  }),
  command({
    name: "stats",
    usage: "[OPTIONS] [NAME...]",
    summary: "Show CPU, memory, network and block counters of running instances.",
    description:
      "On a terminal the table is updated each second; elsewhere each reading is a line. CPU is in " +
      "percent of one CPU. Without NAME: all deployments.",
    options: STATS_OPTIONS,
    positionals: ANY_NAMES,
    examples: ["svc stats", "svc stats --no-stream web", "svc stats --output json web"],
    run: () => import("./stats.ts"),
  }),
  command({
    name: "top",
    usage: "[OPTIONS] NAME",
    summary: "List the processes of a deployment's instances.",
    options: INSTANCE_OPTIONS,
    positionals: ONE_NAME,
    run: () => import("./top.ts"),
  }),
  command({
    name: "events",
    usage: "[OPTIONS] [NAME...]",
    summary: "Show events of instances from now on, until interrupted.",
    description:
      "Events: created, started, healthy, unhealthy, oom, died (with the exit code), stopped (after a " +
      "requested stop), removed. Without NAME: all deployments.",
    options: NO_OPTIONS,
    positionals: ANY_NAMES,
    examples: ["svc events", "svc events --output json web"],
    run: () => import("./events.ts"),
  }),
  command({
    name: "stop",
    usage: "[OPTIONS] NAME...",
    summary: "Stop deployments; a stopped one stays stopped.",
    options: NO_OPTIONS,
    positionals: NAMES,
    run: async () => (await import("./power.ts")).stop,
  }),
  command({
    name: "start",
    usage: "[OPTIONS] NAME...",
    summary: "Start stopped deployments.",
    options: NO_OPTIONS,
    positionals: NAMES,
    run: async () => (await import("./power.ts")).start,
  }),
  command({
    name: "restart",
    usage: "[OPTIONS] NAME...",
    summary: "Stop and start deployments.",
    options: NO_OPTIONS,
    positionals: NAMES,
    run: async () => (await import("./power.ts")).restart,
  }),
  command({
    name: "kill",
    usage: "[OPTIONS] NAME...",
    summary: "Send a signal to the main process of deployments' instances.",
    description:
      "A process that ends by the signal is restarted as its restart policy says. To stop a " +
      "deployment, use `svc stop`.",
    options: KILL_OPTIONS,
    positionals: NAMES,
    examples: ["svc kill -s HUP web"],
    run: async () => (await import("./kill.ts")).kill,
  }),
  command({
    name: "pause",
    usage: "[OPTIONS] NAME...",
    summary: "Freeze all processes of deployments.",
    options: INSTANCE_OPTIONS,
    positionals: NAMES,
    run: async () => (await import("./kill.ts")).pause,
  }),
  command({
    name: "unpause",
    usage: "[OPTIONS] NAME...",
    summary: "Thaw deployments that were frozen.",
    options: INSTANCE_OPTIONS,
    positionals: NAMES,
    run: async () => (await import("./kill.ts")).unpause,
  }),
  command({
    name: "rm",
    usage: "[OPTIONS] NAME...",
    summary: "Stop and remove deployments; named volumes stay.",
    options: REMOVE_OPTIONS,
    positionals: NAMES,
    run: async () => (await import("./power.ts")).remove,
  }),
  command({
    name: "volume",
    usage: "[OPTIONS] ls | inspect NAME... | rm NAME...",
    summary: "List, show and remove the volumes that svc made for deployments.",
    description:
      "A volume that a deployment uses is not removed. rm also removes the volume's content.",
    options: MANAGED_OPTIONS,
    positionals: { min: 1, max: Infinity, names: "ls, inspect or rm" },
    examples: ["svc volume ls", "svc volume rm data"],
    run: async () => (await import("./managed.ts")).volume,
  }),
  command({
    name: "network",
    usage: "[OPTIONS] ls | inspect NAME... | rm NAME...",
    summary: "List, show and remove the networks that svc made for deployments.",
    description: "A network that a deployment uses is not removed.",
    options: MANAGED_OPTIONS,
    positionals: { min: 1, max: Infinity, names: "ls, inspect or rm" },
    examples: ["svc network ls", "svc network rm data"],
    run: async () => (await import("./managed.ts")).network,
  }),
];

/** The rows of `svc compose` that run services and look at what runs. */
import type { Command, CommandModule } from "../command.ts";
import type { AnyOption } from "../../config/load.ts";
import { NO_OPTIONS } from "../options.ts";
import * as options from "./options.ts";

const SERVICES = { min: 0, max: Infinity, names: "SERVICE" };
const ONE = { min: 1, max: 1, names: "SERVICE" };
const NONE = { min: 0, max: 0, names: "" };

interface Runs {
  run(invocation: never): Promise<number>;
}

/**
 * A row; its module is checked against the group's options and its own where it is written. A module of several
 * commands has each by its name.
 */
function row<N extends string>(
  name: N,
  summary: string,
  own: readonly AnyOption[],
  load: () => Promise<Runs | { [name in N]: Runs }>,
  more: Pick<Command, "positionals" | "passThroughAfter" | "examples"> & { usage?: string } = {},
): Command {
  const { usage = "[OPTIONS] [SERVICE...]", positionals = SERVICES, ...rest } = more;
  return {
    ...{ name, summary, usage, positionals, ...rest, options: own },
    load: async () => {
      const module = await load();
      const found = "run" in module ? module as Runs : module[name];
      return found as CommandModule<readonly AnyOption[]>;
    },
  };
}

const power = () => import("./power.ts");
const container = () => import("./container_commands.ts");
const usage = () => import("./usage_commands.ts");
const watching = () => import("./watch_commands.ts");
const image = () => import("./image_commands.ts");

export const RUN_COMMANDS: readonly Command[] = [
  row("up", "Make and start services.", options.UP_OPTIONS, () => import("./up.ts"), {
    examples: ["svc compose up -d --wait", "svc compose up --build web"],
  }),
  row(
    "down",
    "Stop and remove services and networks, with -v volumes too.",
    options.DOWN_OPTIONS,
    () => import("./down.ts"),
  ),
  row("ps", "List containers.", options.PS_OPTIONS, () => import("./ps.ts")),
  row("ls", "List projects.", options.LS_OPTIONS, () => import("./ls.ts"), {
    ...{ positionals: NONE, usage: "[OPTIONS]" },
  }),
  row("logs", "Show the output of services.", options.LOGS_OPTIONS, () => import("./logs.ts")),
  row("build", "Build the images of services.", options.BUILD_OPTIONS, image),
  row(
    "pull",
    "Fetch the images of services into the server's registry.",
    options.PULL_OPTIONS,
    image,
  ),
  row(
    "push",
    "Push built images to the registries that their names say.",
    options.PUSH_OPTIONS,
    image,
  ),
  row(
    "images",
    "List the images of containers.",
    options.IMAGES_OPTIONS,
    () => import("./image_list.ts"),
  ),
  row(
    "create",
    "Make services without starting them.",
    options.CREATE_OPTIONS,
    () => import("./create.ts"),
  ),
  row(
    "scale",
    "Run services in other numbers.",
    options.SCALE_OPTIONS,
    () => import("./create.ts"),
    {
      usage: "[OPTIONS] SERVICE=N...",
      positionals: { min: 1, max: Infinity, names: "SERVICE=N" },
    },
  ),
  row("start", "Start stopped services.", options.START_OPTIONS, power),
  row("stop", "Stop services.", options.STOP_OPTIONS, power),
  row("restart", "Restart services.", options.RESTART_OPTIONS, power),
  row("kill", "Kill services.", options.KILL_OPTIONS, power),
  row("pause", "Freeze services.", NO_OPTIONS, power),
  row("unpause", "Let frozen services go on.", NO_OPTIONS, power),
  row("rm", "Remove stopped services.", options.RM_OPTIONS, power),
  row("exec", "Run a command in a container.", options.EXEC_OPTIONS, container, {
    usage: "[OPTIONS] SERVICE COMMAND [ARG...]",
    positionals: { min: 2, max: Infinity, names: "SERVICE or COMMAND" },
    passThroughAfter: 1,
    examples: ["svc compose exec db psql -U postgres"],
  }),
  row(
    "run",
    "Run a command in a container of its own.",
    options.RUN_OPTIONS,
    () => import("./run.ts"),
    {
      usage: "[OPTIONS] SERVICE [COMMAND [ARG...]]",
      positionals: { min: 1, max: Infinity, names: "SERVICE" },
      passThroughAfter: 1,
      examples: ["svc compose run --rm web npm test"],
    },
  ),
  row(
    "attach",
    "Follow the main process of a container, and type into it.",
    options.ATTACH_OPTIONS,
    container,
    { usage: "[OPTIONS] SERVICE", positionals: ONE },
  ),
  row("cp", "Copy files between this machine and a container.", options.CP_OPTIONS, container, {
    usage: "[OPTIONS] SERVICE:PATH PATH | PATH SERVICE:PATH",
    positionals: { min: 2, max: 2, names: "SRC or DST" },
  }),
  row(
    "export",
    "Write the files of a container as a tar archive.",
    options.EXPORT_OPTIONS,
    container,
    { usage: "[OPTIONS] SERVICE", positionals: ONE },
  ),
  row("top", "List the processes of containers.", NO_OPTIONS, usage),
  row("stats", "Show what containers use.", options.STATS_OPTIONS, usage),
  row("port", "Show where a port of a container is published.", options.PORT_OPTIONS, container, {
    usage: "[OPTIONS] SERVICE PORT",
    positionals: { min: 2, max: 2, names: "SERVICE or PORT" },
  }),
  row("events", "Show events of containers as they happen.", options.EVENTS_OPTIONS, watching),
  row(
    "wait",
    "Wait until services have ended; svc exits with their exit code.",
    options.WAIT_OPTIONS,
    watching,
    {
      usage: "[OPTIONS] SERVICE...",
      positionals: { min: 1, max: Infinity, names: "SERVICE" },
    },
  ),
  row(
    "watch",
    "Carry changed files into containers, rebuild or restart services, as develop.watch says.",
    options.WATCH_OPTIONS,
    () => import("./watch_files.ts"),
  ),
  row(
    "volumes",
    "List volumes.",
    options.VOLUMES_OPTIONS,
    watching,
    { usage: "[OPTIONS]", positionals: NONE },
  ),
  row("version", "Show the version.", options.VERSION_OPTIONS, () => import("./version.ts"), {
    ...{ usage: "[OPTIONS]", positionals: NONE },
  }),
];

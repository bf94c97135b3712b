/** The commands of `svc compose`. */
import { type Command, command } from "../command.ts";
import { CONFIG_OPTIONS } from "./config_options.ts";
import { RUN_COMMANDS } from "./run_commands.ts";

export const COMPOSE_COMMANDS: readonly Command[] = [
  command({
    name: "config",
    usage: "[OPTIONS] [SERVICE...]",
    summary: "Print the project as its files, variables and defaults make it.",
    description:
      "The files are read and checked without a server. What is printed is a Compose file that says the " +
      "same, with every short form written out.",
    options: CONFIG_OPTIONS,
    positionals: { min: 0, max: Infinity, names: "SERVICE" },
    examples: [
      "svc compose config",
      "svc compose -f compose.yaml -f compose.prod.yaml config --format json",
      "svc compose config --services",
    ],
    // Its values are the group's too.
    run: () => import("./config.ts") as never,
  }),
  ...RUN_COMMANDS,
];

/** The commands of `svc compose`. */
import type { Command } from "../command.ts";
import { RUN_COMMANDS } from "./run_commands.ts";

export const COMPOSE_COMMANDS: readonly Command[] = [
  ...RUN_COMMANDS,
];

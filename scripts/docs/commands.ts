/** docs/reference/commands.md, from the command table. */
import { COMMANDS } from "../../cli.ts";
import type { Command } from "../../lib/commands/command.ts";
import { GLOBAL_OPTIONS } from "../../lib/commands/options.ts";
import { defaultText, flagText } from "../../lib/config/help.ts";
import type { AnyOption } from "../../lib/config/load.ts";
import { cell, code, table } from "./markdown.ts";

function options(rows: readonly AnyOption[]): string {
  return table(
    ["option", "variable", "default", "meaning"],
    rows.map((option) => [
      option.flag === undefined ? "" : code(flagText(option).trim()),
      (option.env ?? []).map(code).join(", "),
      cell(defaultText(option)),
      cell(option.absent ? `${option.help} **Not in this build yet.**` : option.help),
    ]),
  );
}

function section(command: Command): string {
  let text = `\n## svc ${command.name}\n\n    svc ${command.name} ${command.usage}\n\n`;
  text += `${cell(command.summary)}\n`;
  if (command.description) text += `\n${cell(command.description)}\n`;
  if (command.name === "serve") {
    text += "\nIts options are in [server-options.md](server-options.md).\n";
  }
  if (command.options.length > 0) text += `\n${options(command.options)}`;
  if (command.examples?.length) {
    text += `\n${command.examples.map((example) => `    ${example}\n`).join("")}`;
  }
  return text;
}

/** The commands, each group followed by its own. */
const ALL = COMMANDS.flatMap((command): Command[] => [
  command,
  ...(command.children ?? []).map((child) => ({
    ...child,
    name: `${command.name} ${child.name}`,
  })),
]);

export function commandsPage(): string {
  return "# Commands\n\n" +
    table(
      ["command", "what"],
      ALL.map((
        { name, summary },
      ) => [`[${code(`svc ${name}`)}](#svc-${name.replaceAll(" ", "-")})`, cell(summary)]),
    ) +
    "\nResults go to standard output, progress and notices to standard error. Exit codes: 0 done, " +
    "1 failed, 2 usage, 125 svc failed around a command that ran, 130 interrupted, else the remote " +
    "command's own.\n" +
    `\n## Options of every command\n\n${options(GLOBAL_OPTIONS)}` +
    ALL.map(section).join("");
}

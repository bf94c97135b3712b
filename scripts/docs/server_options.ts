/** docs/reference/server-options.md, from the server's option table. */
import { defaultText, helpText } from "../../lib/config/help.ts";
import type { AnyOption } from "../../lib/config/load.ts";
import { BACKEND_TABLES } from "../../backends/options.ts";
import { serverTables } from "../../lib/config/server_options.ts";
import { cell, code, table } from "./markdown.ts";

function flag(option: AnyOption): string {
  if (option.flag === undefined) return "";
  const value = option.kind === "bool" ? "" : ` ${option.placeholder ?? option.kind.toUpperCase()}`;
  return code(`--${option.negatable ? "[no-]" : ""}${option.flag}${value}`);
}

function row(option: AnyOption): string[] {
  const help = helpText(option) + (option.absent ? " **Not in this build yet.**" : "");
  return [
    (option.env ?? []).map(code).join(", "),
    flag(option),
    option.default === false ? "off" : cell(defaultText(option)),
    cell(help),
  ];
}

export function serverOptionsPage(): string {
  const sections = Map.groupBy(
    serverTables(BACKEND_TABLES).flatMap((table) => table.options),
    (option) => option.section,
  );
  let text = "# Options of `svc serve`\n\n" +
    "A flag goes before its variable, that before the default. Durations are Go durations (`1m30s`), " +
    "sizes bytes or with a unit (`64Mi`), lists separated by commas. An option marked as not in this " +
    "build yet is read and checked; a value other than its default refuses to start.\n";
  for (const [section, options] of sections) {
    text += `\n## ${section}\n\n` +
      table(["variable", "flag", "default", "meaning"], options.map(row));
  }
  return text;
}

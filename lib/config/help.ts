/** Renders `--help` from option records. */
import { formatBytes } from "../base/bytes.ts";
import { formatDuration } from "../base/duration.ts";
import type { AnyOption } from "./load.ts";

export interface HelpPage {
  /** "svc build [OPTIONS] CONTEXT". */
  usage: string;
  summary: string;
  /** Further paragraphs. */
  description?: string;
  options: readonly AnyOption[];
  examples?: readonly string[];
}

/** The default in words; empty where it is not worth showing. */
export function defaultText(option: AnyOption): string {
  if (option.defaultText !== undefined) return option.defaultText;
  const value = option.default;
  if (value === undefined || value === false || value === "") return "";
  if (value === true) return "on";
  if (option.kind === "duration") return formatDuration(value as number);
  if (option.kind === "bytes") return formatBytes(value as number);
  return Array.isArray(value) ? value.join(",") : String(value);
}

/** The option's meaning in sentences. */
export function helpText({ help, agree }: AnyOption): string {
  return agree ? `${help} The variables mean the same; different values are refused.` : help;
}

/** "-t, --tag NAME", or the variables where there is no flag. */
export function flagText(option: AnyOption): string {
  if (option.flag === undefined && option.short === undefined) {
    return (option.env ?? []).join(", ");
  }
  const long = option.flag && `--${option.negatable ? "[no-]" : ""}${option.flag}`;
  const names = [option.short && `-${option.short}`, long].filter(Boolean).join(", ");
  const value = option.kind === "bool" ? "" : ` ${option.placeholder ?? option.kind.toUpperCase()}`;
  return (option.short ? "" : "    ") + names + value;
}

function wrap(text: string, indent: number, width: number): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > width - indent) {
      lines.push(line);
      line = "";
    }
    line += (line === "" ? "" : " ") + word;
  }
  return [...lines, line].join("\n" + " ".repeat(indent));
}

const COLUMN = 30;

function optionLines(option: AnyOption, width: number): string {
  const facts = [
    option.choices && `one of ${option.choices.join(", ")}`,
    defaultText(option) && `default ${defaultText(option)}`,
    option.flag !== undefined && option.env?.length && option.env.join(", "),
    option.absent && "not in this build yet",
  ].filter(Boolean).join("; ");
  const flags = "  " + flagText(option);
  const gap = flags.length + 2 > COLUMN
    ? "\n" + " ".repeat(COLUMN)
    : " ".repeat(COLUMN - flags.length);
  return flags + gap + wrap(helpText(option) + (facts ? ` (${facts})` : ""), COLUMN, width) + "\n";
}

/** The page, `width` columns wide, options under their sections in the order of the table. */
export function renderHelp(page: HelpPage, width = 100): string {
  const sections = new Map<string, AnyOption[]>();
  for (const option of page.options) {
    const section = sections.get(option.section) ?? [];
    sections.set(option.section, section);
    section.push(option);
  }
  let text = `Usage: ${page.usage}\n\n${wrap(page.summary, 0, width)}\n`;
  if (page.description) text += `\n${wrap(page.description, 0, width)}\n`;
  for (const [section, options] of sections) {
    text += `\n${section}:\n` + options.map((option) => optionLines(option, width)).join("");
  }
  if (page.examples?.length) {
    text += `\nExamples:\n${page.examples.map((example) => `  ${example}\n`).join("")}`;
  }
  return text;
}

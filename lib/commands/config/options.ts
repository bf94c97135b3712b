/** Options of `svc config`: one flag for every field of a context that one flag can give. */
import type { Field } from "../../client/profile/field.ts";
import { CONTEXT_FIELDS } from "../../client/profile/fields.ts";
import type { AnyOption } from "../../config/load.ts";
import { optionRows } from "../../config/option_rows.ts";
import { SESSION_VARIABLES } from "../session_options.ts";

/** The prefix of a block's flags; a block that is not listed uses its own name. */
const PREFIXES: Record<string, string> = { "port-forward": "pf", "ssh-tunnel": "ssh" };

/** Key of a field's option: the path within a context. */
export const FIELD_KEY = "field:";

function flagOf(path: readonly string[]): string {
  const [block, ...rest] = path;
  if (path.join(".") === "token-exchange.enabled") return "token-exchange";
  return [PREFIXES[block] ?? block, ...rest].join("-");
}

const PLACEHOLDERS: Partial<Record<Field["kind"], string>> = { int: "N", strings: "COMMAND" };

function rows(fields: readonly Field[], above: readonly string[]): AnyOption[] {
  return fields.flatMap((field): AnyOption[] => {
    const path = [...above, field.name];
    // --server is a flag of every command; set-context stores its value in the context.
    if (field.kind === "blocks" || path.join(".") === "server") return [];
    if (field.kind === "block") return rows(field.fields!, path);
    const common = {
      key: FIELD_KEY + path.join("."),
      flag: field.kind === "strings" ? "shell" : flagOf(path),
      help: field.help,
      section: "Fields of a context (set-context)",
    };
    if (field.kind === "bool") return [{ ...common, kind: "bool", negatable: true }];
    if (field.kind === "strings") {
      return [{ ...common, kind: "list", verbatim: true, placeholder: "COMMAND" }];
    }
    const placeholder = field.path ? "PATH" : PLACEHOLDERS[field.kind] ?? "TEXT";
    return [{ ...common, kind: field.kind === "int" ? "int" : "string", placeholder }];
  });
}

const section = "Options";
const { flag, text, list } = optionRows("Options");

export const CONFIG_OPTIONS: readonly AnyOption[] = [
  flag("raw", "raw", "view: show tokens as well."),
  flag(
    "export",
    "export",
    "view: write the context (NAME, else the selected one) as a profile of its own, tokens " +
      "included, paths absolute: what set-context --from-file reads.",
  ),
  flag(
    "merge",
    "merge",
    "view: show what commands use here: the selected context with the project's file, " +
      "variables and flags over it. set-context --from-file: lay the file's fields over the " +
      "context instead of replacing it.",
  ),
  text(
    "fromFile",
    "from-file",
    "PATH",
    "set-context: take the fields from a context document, or from an exported profile; - " +
      "is standard input.",
  ),
  list(
    "set",
    "set",
    "FIELD=YAML",
    "set-context: set any field by its path (conduit.socks5.resolve=[...]).",
  ),
  {
    key: "unset",
    kind: "list",
    flag: "unset",
    placeholder: "FIELD",
    help: "set-context: remove a field or a block by its path; may be repeated.",
    section,
  },
  flag("current", "current", "set-context: also select the context."),
  ...rows(CONTEXT_FIELDS, []),
  ...SESSION_VARIABLES,
];

/** docs/reference/profile.md, from the field tables that validate the file. */
import type { Field } from "../../lib/client/profile/field.ts";
import { CONTEXT_FIELDS } from "../../lib/client/profile/fields.ts";
import { cell, code, table } from "./markdown.ts";

const KINDS: Record<Field["kind"], string> = {
  string: "text",
  bool: "true or false",
  int: "whole number",
  strings: "list of text",
  block: "block",
  blocks: "list of blocks",
};

function section(title: string, path: string, fields: readonly Field[]): string {
  const rows = fields.map((field) => [
    code(field.name),
    KINDS[field.kind] + (field.choices ? `: ${field.choices.filter((c) => c).join(", ")}` : ""),
    cell(field.defaultText ?? ""),
    cell(field.help),
  ]);
  const at = path === "" ? "" : ` (\`${path}\`)`;
  return `\n## ${title}${at}\n\n${table(["field", "type", "default", "meaning"], rows)}` +
    fields.filter((field) => field.fields).map((field) =>
      section(
        field.title!,
        `${path ? `${path}.` : ""}${field.name}${field.kind === "blocks" ? "[]" : ""}`,
        field.fields!,
      )
    ).join("");
}

export function profilePage(): string {
  return "# Connection profiles\n\n" +
    "The client's own file, `svc/config.yaml` in the user's configuration folder: " +
    "`$XDG_CONFIG_HOME` where it is set, else `~/.config` (Linux, BSD), `~/Library/Application Support` " +
    "(macOS), `%AppData%` (Windows). `--config-file` or `SVC_CONFIG` names another one. It is written with " +
    "mode 0600 in a 0700 folder; comments stay. One that everybody can write to, or that is another user's, is " +
    "refused. A missing file is an empty one. Paths may begin with `~/`; " +
    "relative ones start at the file's folder.\n\n" +
    "The file has `current-context`, the context used where `--context` and `SVC_CONTEXT` name none, and " +
    "`contexts`, from name to context. `svc config` shows and changes it.\n\n" +
    "## Which server, which credential\n\n" +
    "The server is that of `--server`, else of `SVC_SERVER` or `SVC_HOST`, else of the project's context " +
    "file, else of the selected context, else `http://localhost:5000`. Where a flag or variable names a " +
    "server, the context's credential and TLS settings go with it only if it is the context's own server, " +
    "or `--context` or `SVC_CONTEXT` names the context as well.\n\n" +
    "The credential is `SVC_TOKEN`, else `key-auth`'s session, else `kube-auth`'s token, else `token`; " +
    "`token-exchange` trades what came out, except in a profile with `key-auth`.\n\n" +
    "## A project's context file\n\n" +
    "`svc-context.json`, `.yaml`, `.yml` or `.toml` is one context without a name. The nearest one from the " +
    "working folder upward counts; nothing above the repository's root or the home folder is looked at. Its " +
    "fields lie over the selected context's, blocks whole; `server`, `port-forward` and `ssh-tunnel` are " +
    "one choice, and so are `token`, `kube-auth` and `key-auth`. Where it names another server, the selected " +
    "context's credential (its client certificate, too) is not used.\n\n" +
    "A file that was merely found is not trusted: only its `via-server` counts, unless " +
    "`--trust-context-file` or `SVC_TRUST_CONTEXT_FILE=1` is given. A link, another user's file, and one " +
    "that everybody could have written are ignored. `--context-file` or `SVC_CONTEXT_FILE` names a file, " +
    "which is trusted and must exist; `--no-context-file` looks for none. What is ignored is a warning.\n" +
    section("Context", "", CONTEXT_FIELDS);
}

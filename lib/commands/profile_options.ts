/** Global options that choose and override the connection profile. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const section = "Global options";
const { flag, text } = optionRows("Global options");

export const PROFILE_OPTIONS = [
  {
    ...text("context", "context", "NAME", "Connection profile to use."),
    env: ["SVC_CONTEXT"],
    defaultText: "the profile's current-context",
  },
  {
    ...text("configFile", "config-file", "PATH", "File of the connection profiles."),
    env: ["SVC_CONFIG"],
    defaultText: "svc/config.yaml in the user's configuration folder",
  },
  {
    ...text(
      "contextFile",
      "context-file",
      "PATH",
      "Context file of the project, merged over the selected context. A file that is named " +
        "here is trusted.",
    ),
    env: ["SVC_CONTEXT_FILE"],
    defaultText: "svc-context.{json,yaml,yml,toml}, found upward",
  },
  flag("noContextFile", "no-context-file", "Do not look for a context file of the project."),
  {
    ...flag(
      "trustContextFile",
      "trust-context-file",
      "Trust a context file that svc found. Without this, only its via-server is used.",
    ),
    env: ["SVC_TRUST_CONTEXT_FILE"],
  },
  {
    key: "tokenCache",
    kind: "string",
    env: ["SVC_TOKEN_CACHE"],
    default: "auto",
    choices: ["auto", "keyring", "file", "none"],
    help:
      "Where short-lived credentials are kept: the system's keyring, a private file that ends with " +
      "the login session, or nowhere. auto is the keyring, else the file.",
    section,
  },
] as const satisfies readonly AnyOption[];

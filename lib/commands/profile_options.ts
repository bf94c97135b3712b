/** Global options that choose and override the connection profile. */
import type { AnyOption } from "../config/load.ts";

const section = "Global options";

export const PROFILE_OPTIONS = [
  {
    key: "context",
    kind: "string",
    flag: "context",
    env: ["SVC_CONTEXT"],
    placeholder: "NAME",
    defaultText: "the profile's current-context",
    help: "Connection profile to use.",
    section,
  },
  {
    key: "configFile",
    kind: "string",
    flag: "config-file",
    env: ["SVC_CONFIG"],
    placeholder: "PATH",
    defaultText: "svc/config.yaml in the user's configuration folder",
    help: "File of the connection profiles.",
    section,
  },
  {
    key: "contextFile",
    kind: "string",
    flag: "context-file",
    env: ["SVC_CONTEXT_FILE"],
    placeholder: "PATH",
    defaultText: "svc-context.{json,yaml,yml,toml}, found upward",
    help:
      "Context file of the project, merged over the selected context. A file that is named here is " +
      "trusted.",
    section,
  },
  {
    key: "noContextFile",
    kind: "bool",
    flag: "no-context-file",
    help: "Do not look for a context file of the project.",
    section,
  },
  {
    key: "trustContextFile",
    kind: "bool",
    flag: "trust-context-file",
    env: ["SVC_TRUST_CONTEXT_FILE"],
    help: "Trust a context file that svc found. Without this, only its via-server is used.",
    section,
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

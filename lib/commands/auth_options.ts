/** Option tables of `svc auth` and `svc activity`. */
import type { AnyOption } from "../config/load.ts";

const section = "Options";

export const AUTH_OPTIONS = [
  {
    key: "name",
    kind: "string",
    flag: "name",
    placeholder: "NAME",
    defaultText:
      "the key's comment, else its fingerprint; for the context's own key, key-auth.name",
    help: "With add: caller identity of the key's sessions.",
    section,
  },
  {
    key: "scope",
    kind: "string",
    flag: "scope",
    placeholder: "SCOPE",
    defaultText: "api",
    help: "With add: the widest scopes of the key's sessions, separated by spaces or commas.",
    section,
  },
  {
    key: "expires",
    kind: "string",
    flag: "expires",
    placeholder: "TIME",
    defaultText: "the longest that the server allows",
    help: "With add: when the key expires, as RFC 3339 or a duration from now.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const ACTIVITY_OPTIONS = [
  {
    key: "follow",
    kind: "bool",
    flag: "follow",
    short: "f",
    help: "Keep showing new entries until interrupted.",
    section,
  },
  {
    key: "tail",
    kind: "string",
    flag: "tail",
    short: "n",
    default: "100",
    placeholder: "N",
    help: "Number of last entries to begin with, or all.",
    section,
  },
  {
    key: "since",
    kind: "string",
    flag: "since",
    placeholder: "TIME",
    help: "Show entries since this time: RFC 3339, Unix seconds, or a duration back from now.",
    section,
  },
] as const satisfies readonly AnyOption[];

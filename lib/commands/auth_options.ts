/** Option tables of `svc auth` and `svc activity`. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const { flag, text } = optionRows("Options");

export const AUTH_OPTIONS = [
  {
    ...text("name", "name", "NAME", "With add: caller identity of the key's sessions."),
    defaultText:
      "the key's comment, else its fingerprint; for the context's own key, key-auth.name",
  },
  {
    ...text(
      "scope",
      "scope",
      "SCOPE",
      "With add: the widest scopes of the key's sessions, separated by spaces or commas.",
    ),
    defaultText: "api",
  },
  {
    ...text(
      "expires",
      "expires",
      "TIME",
      "With add: when the key expires, as RFC 3339 or a duration from now.",
    ),
    defaultText: "the longest that the server allows",
  },
] as const satisfies readonly AnyOption[];

export const ACTIVITY_OPTIONS = [
  flag("follow", "follow", "Keep showing new entries until interrupted.", "f"),
  {
    ...text("tail", "tail", "N", "Number of last entries to begin with, or all.", "n"),
    default: "100",
  },
  text(
    "since",
    "since",
    "TIME",
    "Show entries since this time: RFC 3339, Unix seconds, or a duration back from now.",
  ),
] as const satisfies readonly AnyOption[];

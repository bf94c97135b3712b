/** Option tables of the commands that watch workloads and change their instances. */
import type { AnyOption } from "../config/load.ts";

const section = "Options";

const instance = (help: string, defaultText?: string) =>
  ({
    key: "instance",
    kind: "string",
    flag: "instance",
    placeholder: "ID",
    ...(defaultText !== undefined && { defaultText }),
    help,
    section,
  }) as const satisfies AnyOption;

export const INSTANCE_OPTIONS = [
  instance("This instance only.", "all that run"),
] as const satisfies readonly AnyOption[];

export const STATS_OPTIONS = [
  {
    key: "stream",
    kind: "bool",
    flag: "stream",
    negatable: true,
    default: true,
    help:
      "Keep showing readings until interrupted; --no-stream shows one reading, over one second.",
    section,
  },
  ...INSTANCE_OPTIONS,
] as const satisfies readonly AnyOption[];

export const KILL_OPTIONS = [
  {
    key: "signal",
    kind: "string",
    flag: "signal",
    short: "s",
    default: "KILL",
    placeholder: "SIGNAL",
    help: "Signal to send, by name or number.",
    section,
  },
  ...INSTANCE_OPTIONS,
] as const satisfies readonly AnyOption[];

/** First words of `svc volume` and `svc network`. */
export const MANAGED_VERBS = ["ls", "inspect", "rm"] as const;

export const MANAGED_OPTIONS = [
  {
    key: "force",
    kind: "bool",
    flag: "force",
    short: "f",
    help: "With rm: do not fail where something does not exist.",
    section,
  },
  {
    key: "quiet",
    kind: "bool",
    flag: "quiet",
    short: "q",
    help: "With ls: print only names.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const CP_OPTIONS = [
  {
    key: "archive",
    kind: "bool",
    flag: "archive",
    short: "a",
    help:
      "Keep owners, and on this machine the setuid and setgid bits, which needs root. Otherwise files " +
      "belong to root in the instance, and to you on this machine.",
    section,
  },
  {
    key: "followLink",
    kind: "bool",
    flag: "follow-link",
    short: "L",
    help: "Where SRC is a symbolic link, copy its target.",
    section,
  },
  instance("Instance to copy from or to.", "the first that runs"),
] as const satisfies readonly AnyOption[];

export const ATTACH_OPTIONS = [
  {
    key: "stdin",
    kind: "bool",
    flag: "stdin",
    negatable: true,
    default: true,
    help: "Send standard input to the process, where its spec has stdinOpen.",
    section,
  },
  {
    key: "detachKeys",
    kind: "string",
    flag: "detach-keys",
    default: "ctrl-p,ctrl-q",
    placeholder: "KEYS",
    help:
      "Keys that detach when they are typed in this order: letters, and ctrl- with a letter or one of " +
      "@[\\]^_. Empty: none.",
    section,
  },
  {
    key: "sigProxy",
    kind: "bool",
    flag: "sig-proxy",
    negatable: true,
    default: true,
    help:
      "Pass signals that svc gets to the process, unless it has a terminal. The third interrupt detaches.",
    section,
  },
  instance("Instance to attach to.", "the first that runs"),
] as const satisfies readonly AnyOption[];

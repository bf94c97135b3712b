/** Option tables of the commands that watch workloads and change their instances. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";

const section = "Options";
const { flag, text } = optionRows("Options");

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
    ...flag(
      "stream",
      "stream",
      "Keep showing readings until interrupted; --no-stream shows one reading, over one second.",
    ),
    negatable: true,
    default: true,
  },
  ...INSTANCE_OPTIONS,
] as const satisfies readonly AnyOption[];

export const KILL_OPTIONS = [
  {
    ...text("signal", "signal", "SIGNAL", "Signal to send, by name or number.", "s"),
    default: "KILL",
  },
  ...INSTANCE_OPTIONS,
] as const satisfies readonly AnyOption[];

/** First words of `svc volume` and `svc network`. */
export const MANAGED_VERBS = ["ls", "inspect", "rm"] as const;

export const MANAGED_OPTIONS = [
  flag("force", "force", "With rm: do not fail where something does not exist.", "f"),
  flag("quiet", "quiet", "With ls: print only names.", "q"),
] as const satisfies readonly AnyOption[];

export const CP_OPTIONS = [
  flag(
    "archive",
    "archive",
    "Keep owners, and on this machine the setuid and setgid bits, which needs root. " +
      "Otherwise files belong to root in the instance, and to you on this machine.",
    "a",
  ),
  flag("followLink", "follow-link", "Where SRC is a symbolic link, copy its target.", "L"),
  instance("Instance to copy from or to.", "the first that runs"),
] as const satisfies readonly AnyOption[];

export const ATTACH_OPTIONS = [
  {
    ...flag("stdin", "stdin", "Send standard input to the process, where its spec has stdinOpen."),
    negatable: true,
    default: true,
  },
  {
    ...text(
      "detachKeys",
      "detach-keys",
      "KEYS",
      "Keys that detach when they are typed in this order: letters, and ctrl- with a letter " +
        "or one of @[\\]^_. Empty: none.",
    ),
    default: "ctrl-p,ctrl-q",
  },
  {
    ...flag(
      "sigProxy",
      "sig-proxy",
      "Pass signals that svc gets to the process, unless it has a terminal. The third " +
        "interrupt detaches.",
    ),
    negatable: true,
    default: true,
  },
  instance("Instance to attach to.", "the first that runs"),
] as const satisfies readonly AnyOption[];

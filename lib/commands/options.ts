/** Option tables of the commands: data only, so that reading a command line loads nothing else. */
import type { AnyOption } from "../config/load.ts";
import { INPUT_OPTIONS, RESULT_OPTIONS } from "./build/options.ts";
import { DEPLOY_EGRESS_OPTIONS } from "./deploy_egress_options.ts";
import { DETACH_SESSION, SESSION_OPTIONS } from "./session_options.ts";
import { PROFILE_OPTIONS } from "./profile_options.ts";

const section = "Options";

export const OUTPUT_MODES = ["auto", "plain", "fancy", "json"] as const;
export type OutputMode = typeof OUTPUT_MODES[number];

/** Every command has these, before or after its name. */
export const GLOBAL_OPTIONS = [
  {
    key: "server",
    kind: "string",
    flag: "server",
    env: ["SVC_SERVER", "SVC_HOST"],
    placeholder: "URL",
    defaultText: "that of the connection profile, else http://localhost:5000",
    help: "Server to talk to.",
    section: "Global options",
  },
  {
    key: "output",
    kind: "string",
    flag: "output",
    env: ["SVC_OUTPUT"],
    default: "auto",
    choices: OUTPUT_MODES,
    placeholder: "MODE",
    help: "How results and progress are shown. auto is fancy on a terminal and plain elsewhere.",
    section: "Global options",
  },
  {
    key: "token",
    kind: "string",
    env: ["SVC_TOKEN"],
    help: "Bearer token for requests to the server; it overrides the profile's credential.",
    section: "Global options",
  },
  ...PROFILE_OPTIONS,
  {
    key: "help",
    kind: "bool",
    flag: "help",
    short: "h",
    help: "Show the help of the command.",
    section: "Global options",
  },
] as const satisfies readonly AnyOption[];

export const NO_OPTIONS = [] as const satisfies readonly AnyOption[];

export const STATUS_OPTIONS = [
  {
    key: "output",
    kind: "string",
    flag: "output",
    short: "o",
    default: "auto",
    choices: [...OUTPUT_MODES, "yaml"],
    placeholder: "MODE",
    help:
      "As with every command; yaml is the spec that was applied last, for `svc deploy -f` on any server. " +
      "It may hold secrets: whoever may deploy sees it.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const VERSION_OPTIONS = [
  {
    key: "licenses",
    kind: "bool",
    flag: "licenses",
    help: "Print what the executable bundles, with its licenses.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const BUILD_OPTIONS = [
  {
    key: "tags",
    kind: "list",
    flag: "tag",
    short: "t",
    verbatim: true,
    placeholder: "NAME",
    help: "Name to publish the image under, [host[:port]/]name[:tag]; may be repeated.",
    section,
  },
  {
    key: "file",
    kind: "string",
    flag: "file",
    short: "f",
    placeholder: "PATH",
    defaultText: "CONTEXT/Dockerfile",
    help: "The Dockerfile; it may lie outside the context. - reads it from standard input.",
    section,
  },
  {
    key: "buildArgs",
    kind: "list",
    flag: "build-arg",
    verbatim: true,
    placeholder: "K=V",
    help:
      "Value of an ARG; K alone takes it from the environment, SOURCE_DATE_EPOCH always comes from " +
      "there. May be repeated.",
    section,
  },
  {
    key: "target",
    kind: "string",
    flag: "target",
    placeholder: "STAGE",
    defaultText: "the last stage",
    help: "Stage to build.",
    section,
  },
  {
    key: "labels",
    kind: "list",
    flag: "label",
    verbatim: true,
    placeholder: "K=V",
    help: "Label of the image; may be repeated.",
    section,
  },
  {
    key: "platform",
    kind: "string",
    flag: "platform",
    placeholder: "OS/ARCH",
    defaultText: "the server's",
    help: "Platform to build for, os/arch[/variant]; several, separated by commas, give an index.",
    section,
  },
  {
    key: "noCache",
    kind: "bool",
    flag: "no-cache",
    help: "Run every step, without the cache.",
    section,
  },
  {
    key: "reproducible",
    kind: "bool",
    flag: "reproducible",
    help: "The same inputs give the same digests: no time in the image is later than " +
      "SOURCE_DATE_EPOCH, or where that is not given than the newest file of the context, or the " +
      "commit of a repository. Otherwise files have the times at which the steps wrote them.",
    section,
  },
  {
    key: "progress",
    kind: "string",
    flag: "progress",
    choices: OUTPUT_MODES,
    placeholder: "MODE",
    defaultText: "that of --output",
    help:
      "How progress is shown, on standard error; json writes the raw events to standard output.",
    section,
  },
  {
    key: "quiet",
    kind: "bool",
    flag: "quiet",
    short: "q",
    help: "Print only the digest, and what failed.",
    section,
  },
  ...INPUT_OPTIONS,
  ...RESULT_OPTIONS,
] as const satisfies readonly AnyOption[];

export const DEPLOY_OPTIONS = [
  {
    key: "file",
    kind: "string",
    flag: "file",
    short: "f",
    placeholder: "PATH",
    help: "Deployment spec, YAML or JSON; - reads it from standard input.",
    section,
  },
  {
    key: "name",
    kind: "string",
    flag: "name",
    placeholder: "NAME",
    help: "Name of the deployment; overrides the spec's.",
    section,
  },
  {
    key: "image",
    kind: "string",
    flag: "image",
    placeholder: "IMAGE",
    help: "Image to run; overrides the spec's.",
    section,
  },
  {
    key: "publish",
    kind: "list",
    flag: "publish",
    short: "p",
    verbatim: true,
    placeholder: "[[IP:]HOST:]PORT[/PROTOCOL]",
    help: "Port to publish, in addition to the spec's; may be repeated.",
    section,
  },
  {
    key: "env",
    kind: "list",
    flag: "env",
    short: "e",
    verbatim: true,
    placeholder: "K=V",
    help: "Variable of the workload; K alone takes it from the environment. May be repeated.",
    section,
  },
  ...DEPLOY_EGRESS_OPTIONS,
  {
    key: "session",
    kind: "bool",
    flag: "session",
    help:
      "Stay, show the deployment's logs and its ports on this machine, and remove it at the end.",
    section: "Sessions",
  },
  {
    key: "credential",
    kind: "list",
    flag: "credential",
    verbatim: true,
    placeholder: "name=NAME,backend=KIND,…",
    help: "Credential that is made here and delivered to the workload while the session lives; " +
      "docs/credentials.md. May be repeated.",
    section: "Sessions",
  },
  {
    key: "quiet",
    kind: "bool",
    flag: "quiet",
    short: "q",
    help: "Do not show the deployment's logs.",
    section: "Sessions",
  },
  {
    key: "mount",
    kind: "list",
    flag: "mount",
    verbatim: true,
    placeholder: "SOURCE:TARGET[:ro][,cache][,async]",
    help:
      "File or folder of this machine that the workload reads and writes in place, while the session lives; " +
      "docs/mounts.md. May be repeated.",
    section: "Sessions",
  },
  DETACH_SESSION,
  ...SESSION_OPTIONS,
] as const satisfies readonly AnyOption[];

export const LOGS_OPTIONS = [
  {
    key: "follow",
    kind: "bool",
    flag: "follow",
    short: "f",
    help: "Keep showing new lines until interrupted.",
    section,
  },
  {
    key: "tail",
    kind: "string",
    flag: "tail",
    short: "n",
    default: "all",
    placeholder: "N",
    help: "Number of last lines of each instance to begin with, or all.",
    section,
  },
  {
    key: "since",
    kind: "string",
    flag: "since",
    placeholder: "TIME",
    help: "Show lines since this time: RFC 3339, Unix seconds, or a duration back from now.",
    section,
  },
  {
    key: "until",
    kind: "string",
    flag: "until",
    placeholder: "TIME",
    help: "Show lines until this time.",
    section,
  },
  {
    key: "timestamps",
    kind: "bool",
    flag: "timestamps",
    short: "t",
    help: "Begin each line with its time.",
    section,
  },
  {
    key: "instance",
    kind: "string",
    flag: "instance",
    placeholder: "ID",
    help: "Show lines of this instance only.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const EXEC_OPTIONS = [
  {
    key: "interactive",
    kind: "bool",
    flag: "interactive",
    short: "i",
    help: "Pass standard input to the command.",
    section,
  },
  {
    key: "tty",
    kind: "bool",
    flag: "tty",
    short: "t",
    help:
      "Give the command a terminal. With -i it is connected to this terminal, and all keys go to the " +
      "command.",
    section,
  },
  {
    key: "env",
    kind: "list",
    flag: "env",
    short: "e",
    verbatim: true,
    placeholder: "K=V",
    help: "Variable of the command; K alone takes it from the environment. May be repeated.",
    section,
  },
  {
    key: "user",
    kind: "string",
    flag: "user",
    short: "u",
    placeholder: "USER[:GROUP]",
    help: "User to run as, by name or number.",
    section,
  },
  {
    key: "workdir",
    kind: "string",
    flag: "workdir",
    short: "w",
    placeholder: "DIR",
    help: "Working directory of the command.",
    section,
  },
  {
    key: "instance",
    kind: "string",
    flag: "instance",
    placeholder: "ID",
    defaultText: "the first that runs",
    help: "Instance to run the command in.",
    section,
  },
  {
    key: "forwardAgent",
    kind: "bool",
    flag: "forward-agent",
    short: "A",
    help: "Let the command use the SSH agent of SSH_AUTH_SOCK, through a socket that ends with it.",
    section,
  },
] as const satisfies readonly AnyOption[];

export const REMOVE_OPTIONS = [
  {
    key: "force",
    kind: "bool",
    flag: "force",
    short: "f",
    help: "Do not fail where a deployment does not exist.",
    section,
  },
] as const satisfies readonly AnyOption[];

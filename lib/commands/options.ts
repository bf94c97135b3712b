/** Option tables of the commands: data only, so that reading a command line loads nothing else. */
import type { AnyOption } from "../config/load.ts";
import { optionRows } from "../config/option_rows.ts";
import { INPUT_OPTIONS, RESULT_OPTIONS } from "./build/options.ts";
import { DEPLOY_EGRESS_OPTIONS } from "./deploy_egress_options.ts";
import { DETACH_SESSION, SESSION_OPTIONS } from "./session_options.ts";
import { PROFILE_OPTIONS } from "./profile_options.ts";

const global = optionRows("Global options");
const { flag, text, list } = optionRows("Options");
const sessions = optionRows("Sessions");

export const OUTPUT_MODES = ["auto", "plain", "fancy", "json"] as const;
export type OutputMode = typeof OUTPUT_MODES[number];

/** Every command has these, before or after its name. */
export const GLOBAL_OPTIONS = [
  {
    ...global.text("server", "server", "URL", "Server to talk to."),
    env: ["SVC_SERVER", "SVC_HOST"],
    defaultText: "that of the connection profile, else http://localhost:5000",
  },
  {
    ...global.text(
      "output",
      "output",
      "MODE",
      "How results and progress are shown. auto is fancy on a terminal and plain elsewhere.",
      "o",
    ),
    env: ["SVC_OUTPUT"],
    default: "auto",
    choices: OUTPUT_MODES,
  },
  {
    key: "token",
    kind: "string",
    env: ["SVC_TOKEN"],
    help: "Bearer token for requests to the server; it overrides the profile's credential.",
    section: "Global options",
  },
  ...PROFILE_OPTIONS,
  global.flag("help", "help", "Show the help of the command.", "h"),
] as const satisfies readonly AnyOption[];

/** What a command line may have; a letter that the command has a use for itself is the command's. */
export const withGlobal = (own: readonly AnyOption[]): AnyOption[] => [
  ...own,
  ...GLOBAL_OPTIONS.map((option: AnyOption) =>
    own.some(({ short }) => short !== undefined && short === option.short)
      ? { ...option, short: undefined }
      : option
  ),
];

export const NO_OPTIONS = [] as const satisfies readonly AnyOption[];

export const STATUS_OPTIONS = [
  {
    ...text(
      "output",
      "output",
      "MODE",
      "As with every command; yaml is the spec that was applied last, for `svc deploy -f` on " +
        "any server. It may hold secrets: whoever may deploy sees it.",
      "o",
    ),
    default: "auto",
    choices: [...OUTPUT_MODES, "yaml"],
  },
] as const satisfies readonly AnyOption[];

export const VERSION_OPTIONS = [
  flag("licenses", "licenses", "Print what the executable bundles, with its licenses."),
] as const satisfies readonly AnyOption[];

export const BUILD_OPTIONS = [
  list("tags", "tag", "NAME", "Name to publish the image under, [host[:port]/]name[:tag].", "t"),
  {
    ...text(
      "file",
      "file",
      "PATH",
      "The Dockerfile; it may lie outside the context. - reads it from standard input.",
      "f",
    ),
    defaultText: "CONTEXT/Dockerfile",
  },
  list(
    "buildArgs",
    "build-arg",
    "K=V",
    "Value of an ARG; K alone takes it from the environment, SOURCE_DATE_EPOCH always " +
      "comes from there.",
  ),
  { ...text("target", "target", "STAGE", "Stage to build."), defaultText: "the last stage" },
  list("labels", "label", "K=V", "Label of the image."),
  {
    ...text(
      "platform",
      "platform",
      "OS/ARCH",
      "Platform to build for, os/arch[/variant]; several, separated by commas, give an index.",
    ),
    defaultText: "the server's",
  },
  flag("noCache", "no-cache", "Run every step, without the cache."),
  flag(
    "reproducible",
    "reproducible",
    "The same inputs give the same digests: no time in the image is later than " +
      "SOURCE_DATE_EPOCH, or where that is not given than the newest file of the context, or " +
      "the commit of a repository. Otherwise files have the times at which the steps wrote " +
      "them.",
  ),
  {
    ...text(
      "progress",
      "progress",
      "MODE",
      "How progress is shown, on standard error; json writes the raw events to standard output.",
    ),
    choices: OUTPUT_MODES,
    defaultText: "that of --output",
  },
  flag("quiet", "quiet", "Print only the digest, and what failed.", "q"),
  ...INPUT_OPTIONS,
  ...RESULT_OPTIONS,
] as const satisfies readonly AnyOption[];

export const DEPLOY_OPTIONS = [
  text(
    "file",
    "file",
    "PATH",
    "Deployment spec, YAML or JSON; - reads it from standard input.",
    "f",
  ),
  text("name", "name", "NAME", "Name of the deployment; overrides the spec's."),
  text("image", "image", "IMAGE", "Image to run; overrides the spec's."),
  list(
    "publish",
    "publish",
    "[[IP:]HOST:]PORT[/PROTOCOL]",
    "Port to publish, in addition to the spec's.",
    "p",
  ),
  list(
    "env",
    "env",
    "K=V",
    "Variable of the workload; K alone takes it from the environment.",
    "e",
  ),
  ...DEPLOY_EGRESS_OPTIONS,
  sessions.flag(
    "session",
    "session",
    "Stay, show the deployment's logs and its ports on this machine, and remove it at the " +
      "end.",
  ),
  sessions.list(
    "credential",
    "credential",
    "name=NAME,backend=KIND,…",
    "Credential that is made here and delivered to the workload while the session lives; " +
      "docs/credentials.md.",
  ),
  sessions.flag("quiet", "quiet", "Do not show the deployment's logs.", "q"),
  sessions.list(
    "mount",
    "mount",
    "SOURCE:TARGET[:ro][,cache][,async]",
    "File or folder of this machine that the workload reads and writes in place, while the " +
      "session lives; docs/mounts.md.",
  ),
  DETACH_SESSION,
  ...SESSION_OPTIONS,
] as const satisfies readonly AnyOption[];

export const LOGS_OPTIONS = [
  flag("follow", "follow", "Keep showing new lines until interrupted.", "f"),
  {
    ...text(
      "tail",
      "tail",
      "N",
      "Number of last lines of each instance to begin with, or all.",
      "n",
    ),
    default: "all",
  },
  text(
    "since",
    "since",
    "TIME",
    "Show lines since this time: RFC 3339, Unix seconds, or a duration back from now.",
  ),
  text("until", "until", "TIME", "Show lines until this time."),
  flag("timestamps", "timestamps", "Begin each line with its time.", "t"),
  text("instance", "instance", "ID", "Show lines of this instance only."),
] as const satisfies readonly AnyOption[];

export const EXEC_OPTIONS = [
  flag("interactive", "interactive", "Pass standard input to the command.", "i"),
  flag(
    "tty",
    "tty",
    "Give the command a terminal. With -i it is connected to this terminal, and all keys " +
      "go to the command.",
    "t",
  ),
  list("env", "env", "K=V", "Variable of the command; K alone takes it from the environment.", "e"),
  text("user", "user", "USER[:GROUP]", "User to run as, by name or number.", "u"),
  text("workdir", "workdir", "DIR", "Working directory of the command.", "w"),
  {
    ...text("instance", "instance", "ID", "Instance to run the command in."),
    defaultText: "the first that runs",
  },
  flag(
    "forwardAgent",
    "forward-agent",
    "Let the command use the SSH agent of SSH_AUTH_SOCK, through a socket that ends with it.",
    "A",
  ),
] as const satisfies readonly AnyOption[];

export const REMOVE_OPTIONS = [
  flag("force", "force", "Do not fail where a deployment does not exist.", "f"),
] as const satisfies readonly AnyOption[];

/** Options of `svc compose` and its commands, named as docker compose names them: data only. */
import type { AnyOption } from "../../config/load.ts";
import { optionRows } from "../../config/option_rows.ts";

const { flag, text, list } = optionRows("Options");

const PROGRESS_MODES = ["auto", "tty", "plain", "json", "quiet"] as const;

/** Before the command's name. */
export const PROJECT_OPTIONS = [
  list("composeFiles", "file", "PATH", "Compose file; - is standard input.", "f"),
  text("projectName", "project-name", "NAME", "Name of the project.", "p"),
  list("profiles", "profile", "NAME", "Profile whose services take part; * is all."),
  list("envFiles", "env-file", "PATH", "File of variables."),
  text("projectDirectory", "project-directory", "DIR", "Where relative paths begin."),
  flag(
    "allResources",
    "all-resources",
    "Take networks, volumes… that no service uses into account.",
  ),
  flag(
    "devcontainer",
    "devcontainer",
    "Take the project from devcontainer.json, as where there is no Compose file.",
  ),
  {
    ...text("parallel", "parallel", "N", "Services that are worked on at the same time; -1: all."),
    env: ["COMPOSE_PARALLEL_LIMIT"],
    default: "-1",
  },
  {
    ...text("composeProgress", "progress", "MODE", "How progress is shown, on standard error."),
    env: ["COMPOSE_PROGRESS"],
    choices: PROGRESS_MODES,
    default: "auto",
  },
  {
    ...text("ansi", "ansi", "WHEN", "When colours and moving lines are used."),
    env: ["COMPOSE_ANSI"],
    choices: ["auto", "always", "never"],
    default: "auto",
  },
] as const satisfies readonly AnyOption[];

const timeout = text(
  "timeout",
  "timeout",
  "SECONDS",
  "Kill what has not stopped after this time; default: as the service says.",
  "t",
);
const format = {
  ...text("format", "format", "FORMAT", "table or json."),
  choices: ["table", "json"],
} as const;
const index = text("index", "index", "N", "Container of that number.");
const removeOrphans = flag(
  "removeOrphans",
  "remove-orphans",
  "Remove containers of services that are no longer in the files.",
);
const pull = text("pullPolicy", "pull", "POLICY", "Pull images: always, missing, never, policy.");

const PUTTING_UP = [
  flag("build", "build", "Build images first."),
  flag("noBuild", "no-build", "Do not build images, even missing ones."),
  flag("forceRecreate", "force-recreate", "Recreate containers even if nothing changed."),
  flag("noRecreate", "no-recreate", "Leave existing containers as they are."),
  list("scale", "scale", "SERVICE=N", "Number of containers of a service."),
  removeOrphans,
  flag("quietPull", "quiet-pull", "Do not show the progress of pulls."),
  flag("quietBuild", "quiet-build", "Do not show builds."),
  flag("yes", "yes", "Take every question as answered with yes.", "y"),
  pull,
] as const satisfies readonly AnyOption[];

export const UP_OPTIONS = [
  flag("detach", "detach", "Leave the containers running in the background.", "d"),
  ...PUTTING_UP,
  flag("noDeps", "no-deps", "Do not start the services that the named ones depend on."),
  flag("alwaysRecreateDeps", "always-recreate-deps", "With --force-recreate: dependencies too."),
  flag("noStart", "no-start", "Make the containers, and do not start them."),
  flag("wait", "wait", "Wait until the services run, or are healthy; implies --detach."),
  text("waitTimeout", "wait-timeout", "SECONDS", "How long --wait waits at most."),
  flag("abortOnExit", "abort-on-container-exit", "Stop all containers once one has stopped."),
  flag("abortOnFailure", "abort-on-container-failure", "Stop all once one has failed."),
  text("exitCodeFrom", "exit-code-from", "SERVICE", "Exit with its exit code; implies the abort."),
  list("attach", "attach", "SERVICE", "Show the logs of this service only."),
  list("noAttach", "no-attach", "SERVICE", "Do not show the logs of this service."),
  flag("attachDependencies", "attach-dependencies", "Show the logs of dependencies too."),
  flag("noLogPrefix", "no-log-prefix", "Do not begin lines with their container's name."),
  flag("noColor", "no-color", "Without colours."),
  flag("timestamps", "timestamps", "Show the time of each line."),
  flag("watch", "watch", "Follow develop.watch: carry changed files over, rebuild, restart.", "w"),
  timeout,
] as const satisfies readonly AnyOption[];

export const WATCH_OPTIONS = [
  flag("noUp", "no-up", "Do not build and start the services first."),
  {
    ...flag("prune", "prune", "Accepted: `svc gc` removes images that nothing uses."),
    negatable: true,
    default: true,
  },
  flag("quiet", "quiet", "Do not show builds.", "q"),
] as const satisfies readonly AnyOption[];

export const CREATE_OPTIONS = PUTTING_UP;

export const SCALE_OPTIONS = [
  flag("noDeps", "no-deps", "Do not start the services that the named ones depend on."),
] as const satisfies readonly AnyOption[];

export const DOWN_OPTIONS = [
  flag("volumes", "volumes", "Remove the project's volumes too.", "v"),
  removeOrphans,
  timeout,
  {
    ...text("rmi", "rmi", "WHICH", "Remove images: of builds without a name (local), or all."),
    choices: ["local", "all"],
  },
] as const satisfies readonly AnyOption[];

export const PS_OPTIONS = [
  flag("all", "all", "Stopped containers too, and those of run.", "a"),
  flag("quiet", "quiet", "Print only names.", "q"),
  flag("services", "services", "Print the names of services."),
  flag(
    "orphans",
    "orphans",
    "Accepted: services that are no longer in the files are shown anyway.",
  ),
  flag("noTrunc", "no-trunc", "Do not shorten commands."),
  list("status", "status", "STATE", "Only containers in this state: running, exited, paused…"),
  list("filters", "filter", "status=STATE", "As --status."),
  format,
] as const satisfies readonly AnyOption[];

export const LS_OPTIONS = [
  flag("all", "all", "Stopped projects too.", "a"),
  flag("quiet", "quiet", "Print only names.", "q"),
  list("filters", "filter", "name=TEXT", "Only projects of that name."),
  format,
] as const satisfies readonly AnyOption[];

export const LOGS_OPTIONS = [
  flag("follow", "follow", "Keep showing new lines.", "f"),
  { ...text("tail", "tail", "N", "Last lines of each container, or all.", "n"), default: "all" },
  text("since", "since", "TIME", "Lines since this time, or since a duration ago."),
  text("until", "until", "TIME", "Lines until this time."),
  flag("timestamps", "timestamps", "Show the time of each line.", "t"),
  flag("noLogPrefix", "no-log-prefix", "Do not begin lines with their container's name."),
  flag("noColor", "no-color", "Without colours."),
  index,
] as const satisfies readonly AnyOption[];

export const STOP_OPTIONS = [timeout] as const satisfies readonly AnyOption[];

export const START_OPTIONS = [
  flag("wait", "wait", "Wait until the services run, or are healthy."),
  text("waitTimeout", "wait-timeout", "SECONDS", "How long --wait waits at most."),
] as const satisfies readonly AnyOption[];

export const RESTART_OPTIONS = [
  flag("noDeps", "no-deps", "Do not restart services that depend on them."),
  timeout,
] as const satisfies readonly AnyOption[];

export const KILL_OPTIONS = [
  { ...text("signal", "signal", "SIGNAL", "Signal to send.", "s"), default: "SIGKILL" },
  removeOrphans,
] as const satisfies readonly AnyOption[];

export const RM_OPTIONS = [
  flag("force", "force", "Do not ask.", "f"),
  flag("stop", "stop", "Stop the containers first.", "s"),
  flag("volumes", "volumes", "Remove volumes without a name too.", "v"),
] as const satisfies readonly AnyOption[];

export const EXEC_OPTIONS = [
  flag("detach", "detach", "Leave the command running in the background.", "d"),
  list("env", "env", "K=V", "Variable of the command.", "e"),
  index,
  flag("noTty", "no-tty", "Without a terminal.", "T"),
  flag("tty", "tty", "With a terminal, as on a terminal by default.", "t"),
  flag("interactive", "interactive", "Pass standard input, which is the default.", "i"),
  flag("privileged", "privileged", "With extended privileges."),
  text("user", "user", "USER", "User to run as.", "u"),
  text("workdir", "workdir", "DIR", "Working directory.", "w"),
] as const satisfies readonly AnyOption[];

export const RUN_OPTIONS = [
  flag("detach", "detach", "Leave the container running, and print its name.", "d"),
  flag("rm", "rm", "Remove the container when it ends."),
  flag("build", "build", "Build the image first."),
  text("name", "name", "NAME", "Name of the container."),
  text("entrypoint", "entrypoint", "COMMAND", "Replaces the image's."),
  list("env", "env", "K=V", "Variable of the container.", "e"),
  list("envFromFile", "env-from-file", "FILE", "File of variables of the container."),
  list("labels", "label", "K=V", "Label of the container.", "l"),
  list("publish", "publish", "PORT", "Port to publish.", "p"),
  list("volumes", "volume", "SRC:DST", "Volume or folder to mount.", "v"),
  list("capAdd", "cap-add", "CAP", "Capability to add."),
  list("capDrop", "cap-drop", "CAP", "Capability to drop."),
  flag("servicePorts", "service-ports", "Publish the service's ports.", "P"),
  flag("useAliases", "use-aliases", "Answer to the service's names on its networks."),
  flag("noDeps", "no-deps", "Do not start what the service depends on."),
  flag("noTty", "no-TTY", "Without a terminal.", "T"),
  flag("tty", "tty", "With a terminal, as on a terminal by default.", "t"),
  flag("interactive", "interactive", "Pass standard input, which is the default.", "i"),
  flag("quietPull", "quiet-pull", "Do not show the progress of pulls."),
  flag("quietBuild", "quiet-build", "Do not show builds."),
  pull,
  flag("quiet", "quiet", "Do not show what is done before the command runs.", "q"),
  removeOrphans,
  text("user", "user", "USER", "User to run as.", "u"),
  text("workdir", "workdir", "DIR", "Working directory.", "w"),
] as const satisfies readonly AnyOption[];

export const CP_OPTIONS = [
  flag("archive", "archive", "Keep owners.", "a"),
  flag("followLink", "follow-link", "Where SRC is a link, copy its target.", "L"),
  flag("allContainers", "all", "Copy into all containers of the service."),
  index,
] as const satisfies readonly AnyOption[];

export const STATS_OPTIONS = [
  flag("noStream", "no-stream", "Show one reading."),
  flag("noTrunc", "no-trunc", "Accepted: nothing is cut."),
  format,
] as const satisfies readonly AnyOption[];

export const EXPORT_OPTIONS = [
  text("exportTo", "output", "FILE", "Write to this file instead of standard output.", "o"),
  index,
] as const satisfies readonly AnyOption[];

export const PORT_OPTIONS = [
  { ...text("protocol", "protocol", "PROTOCOL", "tcp or udp."), default: "tcp" },
  index,
] as const satisfies readonly AnyOption[];

export const EVENTS_OPTIONS = [
  flag("json", "json", "Each event as a line of JSON."),
] as const satisfies readonly AnyOption[];

export const WAIT_OPTIONS = [
  flag("downProject", "down-project", "Remove the project when the first container has stopped."),
] as const satisfies readonly AnyOption[];

export const IMAGES_OPTIONS = [
  flag("quiet", "quiet", "Print only digests.", "q"),
  format,
] as const satisfies readonly AnyOption[];

export const VOLUMES_OPTIONS = [
  flag("quiet", "quiet", "Print only names.", "q"),
  format,
] as const satisfies readonly AnyOption[];

export const BUILD_OPTIONS = [
  list("buildArgs", "build-arg", "K=V", "Value of an ARG."),
  flag("noCache", "no-cache", "Run every step, without the cache."),
  flag("pull", "pull", "Look for newer base images."),
  flag("push", "push", "Accepted: images are in the server's registry."),
  flag("quiet", "quiet", "Do not show the build.", "q"),
  flag("withDependencies", "with-dependencies", "Build what the services depend on too."),
  list("ssh", "ssh", "ID[=PATH]", "SSH agent or keys of the build."),
  text("provenance", "provenance", "true|mode=…", "Attest how images were built."),
  text("sbom", "sbom", "true", "Attest what is in images."),
] as const satisfies readonly AnyOption[];

export const PULL_OPTIONS = [
  flag("ignoreFailures", "ignore-pull-failures", "Pull what can be pulled."),
  flag("ignoreBuildable", "ignore-buildable", "Leave out images that can be built."),
  flag("includeDeps", "include-deps", "Pull what the services depend on too."),
  flag("quiet", "quiet", "Do not show progress.", "q"),
  text("policy", "policy", "POLICY", "always or missing."),
] as const satisfies readonly AnyOption[];

export const PUSH_OPTIONS = [
  flag("ignoreFailures", "ignore-push-failures", "Push what can be pushed."),
  flag("includeDeps", "include-deps", "Push what the services depend on too."),
  flag("quiet", "quiet", "Do not show progress.", "q"),
] as const satisfies readonly AnyOption[];

export const ATTACH_OPTIONS = [
  index,
  flag("noStdin", "no-stdin", "Do not send standard input."),
  text("detachKeys", "detach-keys", "KEYS", "Keys that detach."),
  {
    ...flag("sigProxy", "sig-proxy", "Pass signals on to the process."),
    negatable: true,
    default: true,
  },
] as const satisfies readonly AnyOption[];

export const VERSION_OPTIONS = [
  flag("short", "short", "Print only the version."),
  text("format", "format", "FORMAT", "pretty or json.", "f"),
] as const satisfies readonly AnyOption[];

/** Instructions that only change the image's configuration. */
import { posix } from "node:path";
import { signalNumber } from "../../base/signals.ts";
import type { ContainerConfig } from "../../oci/types.ts";
import type { Command, HealthcheckInstruction, Instruction } from "../parse/ast.ts";
import { expandWords } from "../parse/expand.ts";
import { parsePorts } from "../parse/ports.ts";
import type { LimitsUsed } from "../parse/limits.ts";
import { atLine } from "./refusal.ts";
import { type Expand } from "./scope.ts";
import { shellOf, type StageState } from "./stage.ts";

export interface MetadataTools {
  expand: Expand;
  escape: "\\" | "`";
  file: string;
  usage: LimitsUsed;
}

/** Go's `%q` of a list, as BuildKit's histories have it. */
const quoted = (args: string[]) => `[${args.map((arg) => JSON.stringify(arg)).join(" ")}]`;

function commandLine(state: StageState, command: Command): string[] {
  return command.form === "exec" ? command.args : [...shellOf(state), command.text];
}

const NANOSECONDS = 1_000_000;

/** A Go duration as its String method writes it: "1m30s", "1.5s", "500ms". */
function goDuration(ms: number): string {
  if (ms === 0) return "0s";
  if (ms < 1000) return `${ms}ms`;
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = `${Math.round(ms % 60_000) / 1000}s`;
  if (hours > 0) return `${hours}h${minutes}m${seconds}`;
  return minutes > 0 ? `${minutes}m${seconds}` : seconds;
}

const RUNE: Record<number, string> = {
  7: "\\a",
  8: "\\b",
  9: "\\t",
  10: "\\n",
  11: "\\v",
  12: "\\f",
  13: "\\r",
  39: "\\'",
  92: "\\\\",
};

/** A number as Go's `%q` writes it: as a character. */
function rune(code: number): string {
  if (RUNE[code]) return `'${RUNE[code]}'`;
  if (code < 32 || code === 127) return `'\\x${code.toString(16).padStart(2, "0")}'`;
  return `'${String.fromCodePoint(code)}'`;
}

/** The history line of HEALTHCHECK as BuildKit writes it: a structure in Go's notation. */
function healthcheckHistory(
  instruction: HealthcheckInstruction,
  test: string[],
): string {
  const { interval = 0, timeout = 0, startPeriod = 0, startInterval = 0, retries = 0 } =
    instruction;
  const times = [interval, timeout, startPeriod, startInterval]
    .map((ms) => `"${goDuration(ms)}"`).join(" ");
  return `HEALTHCHECK &{${quoted(test)} ${times} ${rune(retries)}}`;
}

function healthcheck(
  instruction: HealthcheckInstruction,
): ContainerConfig["Healthcheck"] {
  const { test } = instruction;
  if (!test) return { Test: ["NONE"] };
  const check: NonNullable<ContainerConfig["Healthcheck"]> = {
    Test: test.form === "exec"
      ? ["CMD", ...test.args]
      // Engines run it with the image's own SHELL.
      : ["CMD-SHELL", test.text],
  };
  const set = (key: "Interval" | "Timeout" | "StartPeriod" | "StartInterval", ms?: number) => {
    if (ms) check[key] = Math.round(ms * NANOSECONDS);
  };
  set("Interval", instruction.interval);
  set("Timeout", instruction.timeout);
  set("StartPeriod", instruction.startPeriod);
  set("StartInterval", instruction.startInterval);
  if (instruction.retries) check.Retries = instruction.retries;
  return check;
}

/** An absolute path stays exactly as written in the image's configuration. */
function workingDir(before: string, path: string): string {
  return path.startsWith("/") ? path : posix.join("/", before, path).replace(/(.)\/$/, "$1");
}

/** A stage, and the function that expands an instruction's words in it. */
interface At {
  state: StageState;
  tools: MetadataTools;
  value: (word: Parameters<Expand>[0]) => string;
  fail: (what: string) => Error;
}

/** Each handler changes the stage and returns its history line, where there is one. */
type Handlers = {
  [K in Instruction["kind"]]?: (
    instruction: Extract<Instruction, { kind: K }>,
    at: At,
  ) => string | undefined;
};

const HANDLERS: Handlers = {
  env({ pairs }, { state: { scope }, value, fail }) {
    const expanded = pairs.map(({ key, value: word }) => [value(key), value(word)]);
    for (const [name, text] of expanded) {
      if (name === "") throw fail("ENV: the name is empty");
      scope.setEnv(name, text);
    }
    return `ENV ${expanded.map(([name, text]) => `${name}=${text}`).join(" ")}`;
  },
  arg({ args }, { state: { scope }, value }) {
    const shown = args.map(({ key, value: word }) => {
      const name = value(key);
      const text = scope.declare(name, word === undefined ? undefined : value(word));
      return text === undefined ? name : `${name}=${text}`;
    });
    return `ARG ${shown.join(" ")}`;
  },
  label({ pairs }, { state: { config }, value }) {
    const expanded = pairs.map(({ key, value: word }) => [value(key), value(word)]);
    config.Labels = { ...config.Labels, ...Object.fromEntries(expanded) };
    return `LABEL ${expanded.map(([name, text]) => `${name}=${text}`).join(" ")}`;
  },
  user({ user }, { state: { config }, value }) {
    config.User = value(user);
    return `USER ${config.User}`;
  },
  shell({ args }, { state: { config } }) {
    config.Shell = [...args];
    return `SHELL [${args.join(" ")}]`;
  },
  cmd({ command }, { state }) {
    state.ownCommand = true;
    state.config.Cmd = commandLine(state, command);
    return `CMD ${quoted(state.config.Cmd)}`;
  },
  entrypoint({ command }, { state }) {
    state.config.Entrypoint = commandLine(state, command);
    if (!state.ownCommand) delete state.config.Cmd;
    return `ENTRYPOINT ${quoted(state.config.Entrypoint)}`;
  },
  expose({ ports: texts, line }, { state: { config, scope }, tools, fail }) {
    const { escape, file, usage } = tools;
    const words = texts.flatMap((word) => expandWords(word, scope, { escape, file }).values);
    usage.add("expanded", words.join("").length, line);
    const ports = words.flatMap((word) => {
      const found = parsePorts(word);
      if ("reason" in found) throw fail(`EXPOSE: ${found.reason}`);
      usage.add("ports", found.count, line);
      return found.ports();
    });
    config.ExposedPorts ??= {};
    for (const port of ports) config.ExposedPorts[port] = {};
    return `EXPOSE [${[...new Set(ports)].sort().join(" ")}]`;
  },
  volume({ paths: words }, { state: { config }, value, fail }) {
    const paths = words.map(value);
    if (paths.includes("")) throw fail("VOLUME: the path is empty");
    config.Volumes = { ...config.Volumes, ...Object.fromEntries(paths.map((path) => [path, {}])) };
    return `VOLUME [${paths.join(" ")}]`;
  },
  healthcheck(instruction, { state: { config } }) {
    config.Healthcheck = healthcheck(instruction);
    return healthcheckHistory(instruction, config.Healthcheck!.Test!);
  },
  stopsignal(instruction, { state: { config }, value, fail }) {
    const signal = value(instruction.signal);
    // A number unknown here may be a signal of another system.
    if (!(Number(signal) > 0) && signalNumber(signal) === undefined) {
      throw fail(`STOPSIGNAL ${signal}: expected a signal such as SIGTERM or 15`);
    }
    config.StopSignal = signal;
    return `STOPSIGNAL ${signal}`;
  },
  onbuild({ trigger }, { state: { config } }) {
    config.OnBuild = [...config.OnBuild ?? [], trigger];
    return undefined;
  },
  maintainer({ name }, { state }) {
    state.author = name;
    return `MAINTAINER ${name}`;
  },
};

/** Applies an instruction; false where it makes a file system. */
export function applyMetadata(
  state: StageState,
  instruction: Instruction,
  tools: MetadataTools,
): boolean {
  const { config, scope, history } = state;
  const value: At["value"] = (word) => tools.expand(word, scope);
  if (instruction.kind === "workdir") {
    // WORKDIR's folder is made by a vertex: see filesystem.ts.
    config.WorkingDir = workingDir(config.WorkingDir || "/", value(instruction.path));
    return false;
  }
  const handler = HANDLERS[instruction.kind] as
    | ((instruction: Instruction, at: At) => string | undefined)
    | undefined;
  if (!handler) return false;
  const fail = (what: string) => atLine(tools.file, instruction.line, what);
  const created_by = handler(instruction, { state, tools, value, fail });
  if (created_by !== undefined) history.push({ entry: { created_by } });
  return true;
}

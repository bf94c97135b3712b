/** Instructions that change the image's configuration only. */
import { posix } from "node:path";
import { signalNumber } from "../../base/signals.ts";
import type { ContainerConfig } from "../../oci/types.ts";
import type { Command, HealthcheckInstruction, Instruction } from "../parse/ast.ts";
import { expandWords } from "../parse/expand.ts";
import { parsePorts } from "../parse/ports.ts";
import type { Usage } from "../parse/limits.ts";
import { atLine } from "./refusal.ts";
import { type Expand } from "./scope.ts";
import { shellOf, type StageState } from "./stage.ts";

export interface MetadataTools {
  expand: Expand;
  escape: "\\" | "`";
  file: string;
  usage: Usage;
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

/** A number as Go's `%q` writes it: a character. */
function rune(code: number): string {
  if (RUNE[code]) return `'${RUNE[code]}'`;
  if (code < 32 || code === 127) return `'\\x${code.toString(16).padStart(2, "0")}'`;
  return `'${String.fromCodePoint(code)}'`;
}

/** The line that BuildKit writes into the history: a structure in Go's notation. */
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

/** An absolute path stays as it is written; that is what the image says. */
function workingDir(before: string, path: string): string {
  return path.startsWith("/") ? path : posix.join("/", before, path).replace(/(.)\/$/, "$1");
}

/** Applies it; false for an instruction that makes a file system. */
export function applyMetadata(
  state: StageState,
  instruction: Instruction,
  tools: MetadataTools,
): boolean {
  const { config, scope } = state;
  const note = (created_by: string) => void state.history.push({ entry: { created_by } });
  const value = (word: Parameters<Expand>[0]) => tools.expand(word, scope);
  const fail = (what: string) => atLine(tools.file, instruction.line, what);
  switch (instruction.kind) {
    case "env": {
      const pairs = instruction.pairs.map(({ key, value: word }) => [value(key), value(word)]);
      for (const [name, text] of pairs) {
        if (name === "") throw fail("ENV: the name is empty");
        scope.setEnv(name, text);
      }
      note(`ENV ${pairs.map(([name, text]) => `${name}=${text}`).join(" ")}`);
      return true;
    }
    case "arg": {
      const shown = instruction.args.map(({ key, value: word }) => {
        const name = value(key);
        const text = scope.declare(name, word === undefined ? undefined : value(word));
        return text === undefined ? name : `${name}=${text}`;
      });
      note(`ARG ${shown.join(" ")}`);
      return true;
    }
    case "label": {
      const pairs = instruction.pairs.map(({ key, value: word }) => [value(key), value(word)]);
      config.Labels = { ...config.Labels, ...Object.fromEntries(pairs) };
      note(`LABEL ${pairs.map(([name, text]) => `${name}=${text}`).join(" ")}`);
      return true;
    }
    case "user":
      config.User = value(instruction.user);
      note(`USER ${config.User}`);
      return true;
    case "shell":
      config.Shell = [...instruction.args];
      note(`SHELL [${instruction.args.join(" ")}]`);
      return true;
    case "cmd": {
      const args = commandLine(state, instruction.command);
      state.ownCommand = true;
      config.Cmd = args;
      note(`CMD ${quoted(args)}`);
      return true;
    }
    case "entrypoint": {
      const args = commandLine(state, instruction.command);
      config.Entrypoint = args;
      if (!state.ownCommand) delete config.Cmd;
      note(`ENTRYPOINT ${quoted(args)}`);
      return true;
    }
    case "expose": {
      const words = instruction.ports.flatMap((word) =>
        expandWords(word, scope, { escape: tools.escape, file: tools.file }).values
      );
      tools.usage.add("expanded", words.join("").length, instruction.line);
      const ports = words.flatMap((word) => {
        const found = parsePorts(word);
        if ("reason" in found) throw fail(`EXPOSE: ${found.reason}`);
        tools.usage.add("ports", found.count, instruction.line);
        return found.ports();
      });
      config.ExposedPorts ??= {};
      for (const port of ports) config.ExposedPorts[port] = {};
      note(`EXPOSE [${[...new Set(ports)].sort().join(" ")}]`);
      return true;
    }
    case "volume": {
      const paths = instruction.paths.map((word) => {
        const path = value(word);
        if (path === "") throw fail("VOLUME: the path is empty");
        return path;
      });
      config.Volumes = {
        ...config.Volumes,
        ...Object.fromEntries(paths.map((path) => [path, {}])),
      };
      note(`VOLUME [${paths.join(" ")}]`);
      return true;
    }
    case "healthcheck":
      config.Healthcheck = healthcheck(instruction);
      note(healthcheckHistory(instruction, config.Healthcheck!.Test!));
      return true;
    case "stopsignal": {
      const signal = value(instruction.signal);
      // A number that this system does not know may be another's.
      const known = Number(signal) > 0 || signalNumber(signal) !== undefined;
      if (!known) {
        throw fail(`STOPSIGNAL ${signal}: expected a signal such as SIGTERM or 15`);
      }
      config.StopSignal = signal;
      note(`STOPSIGNAL ${signal}`);
      return true;
    }
    case "onbuild":
      config.OnBuild = [...config.OnBuild ?? [], instruction.trigger];
      return true;
    case "maintainer":
      state.author = instruction.name;
      note(`MAINTAINER ${instruction.name}`);
      return true;
    case "workdir":
      // The folder itself is a vertex: see filesystem.ts.
      config.WorkingDir = workingDir(config.WorkingDir || "/", value(instruction.path));
      return false;
    default:
      return false;
  }
}

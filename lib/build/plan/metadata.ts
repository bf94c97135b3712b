/** Instructions that change the image's configuration only. */
import { posix } from "node:path";
import type { ContainerConfig } from "../../oci/types.ts";
import type { Command, HealthcheckInstruction, Instruction } from "../parse/ast.ts";
import { expandWords } from "../parse/expand.ts";
import { parsePorts } from "../parse/ports.ts";
import { atLine } from "./refusal.ts";
import { type Expand } from "./scope.ts";
import { shellOf, type StageState } from "./stage.ts";

export interface MetadataTools {
  expand: Expand;
  escape: "\\" | "`";
  file: string;
}

/** Go's `%q` of a list, as BuildKit's histories have it. */
const quoted = (args: string[]) => `[${args.map((arg) => JSON.stringify(arg)).join(" ")}]`;

function commandLine(state: StageState, command: Command): string[] {
  return command.form === "exec" ? command.args : [...shellOf(state), command.text];
}

const NANOSECONDS = 1_000_000;

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
      for (const { key, value: word } of instruction.args) {
        const name = value(key);
        const text = scope.declare(name, word === undefined ? undefined : value(word));
        note(`ARG ${name}${text === undefined ? "" : `=${text}`}`);
      }
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
      note(`SHELL ${quoted(instruction.args)}`);
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
      const ports = words.flatMap((word) => {
        const found = parsePorts(word);
        if ("reason" in found) throw fail(`EXPOSE: ${found.reason}`);
        return found.ports;
      });
      config.ExposedPorts = {
        ...config.ExposedPorts,
        ...Object.fromEntries(ports.map((port) => [port, {}])),
      };
      note(`EXPOSE [${ports.join(" ")}]`);
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
      note(instruction.text);
      return true;
    case "stopsignal": {
      const signal = value(instruction.signal);
      if (!/^(?:\d{1,2}|(?:SIG)?[A-Z0-9+-]+)$/i.test(signal)) {
        throw fail(`STOPSIGNAL ${signal}: expected a signal such as SIGTERM or 15`);
      }
      config.StopSignal = signal;
      note(`STOPSIGNAL ${signal}`);
      return true;
    }
    case "onbuild":
      config.OnBuild = [...config.OnBuild ?? [], instruction.trigger];
      note(`ONBUILD ${instruction.trigger}`);
      return true;
    case "maintainer":
      state.author = instruction.name;
      note(`MAINTAINER ${instruction.name}`);
      return true;
    case "workdir":
      // The folder itself is a vertex: see filesystem.ts.
      config.WorkingDir = posix.resolve("/", config.WorkingDir || "/", value(instruction.path));
      return false;
    default:
      return false;
  }
}

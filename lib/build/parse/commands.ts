/** RUN, CMD, ENTRYPOINT, SHELL and HEALTHCHECK: instructions that hold a command line. */
import { parseDuration } from "../../base/duration.ts";
import { suggestion } from "../../base/nearest.ts";
import {
  type CmdInstruction,
  type Command,
  type EntrypointInstruction,
  type HealthcheckInstruction,
  heredocText,
  type RunInstruction,
  type ShellInstruction,
} from "./ast.ts";
import type { Line } from "./line.ts";
import { parseMount } from "./mounts.ts";
import { firstWord, jsonForm } from "./words.ts";

/** The result of one instruction's own parser; the caller adds lines and text. */
export type Body<T> = T extends unknown ? Omit<T, "line" | "endLine" | "raw" | "text" | "heredocs">
  : never;

function command(line: Line, text: string): Command {
  const json = jsonForm(text);
  if (json.kind === "mixed") throw line.fail("its JSON array holds something other than strings");
  return json.kind === "array" ? { form: "exec", args: json.values } : { form: "shell", text };
}

function oneOf<T extends string>(line: Line, flag: string, allowed: readonly T[]): T {
  const value = (line.flags.text(flag) ?? allowed[0]).toLowerCase();
  const found = allowed.find((item) => item === value);
  if (found === undefined) {
    const near = suggestion(value, allowed);
    const choice = `${allowed.slice(0, -1).join(", ")} or ${allowed.at(-1)}`;
    throw line.fail(`flag --${flag} is ${choice}, not ${JSON.stringify(value)}${near}`);
  }
  return found;
}

export function parseRun(line: Line): Body<RunInstruction> {
  line.flags.check({
    mount: "list",
    network: "text",
    security: "text",
    device: "list",
  });
  const body: Body<RunInstruction> = {
    kind: "run",
    command: command(line, line.required("a command")),
    mounts: line.flags.list("mount").map((raw) => parseMount(raw, line.file, line.line)),
    network: oneOf(line, "network", ["default", "none", "host"]),
    security: oneOf(line, "security", ["sandbox", "insecure"]),
    devices: line.flags.list("device"),
  };
  if (body.command.form === "exec") {
    if (body.command.args.length === 0) throw line.fail("it needs a command");
    return body;
  }
  const [token] = line.tokens;
  if (line.heredocs.length === 1 && token.start === 0 && token.end === line.rest.length) {
    body.script = line.heredocs[0];
    body.command.text = heredocText(body.script);
  } else {
    for (const doc of line.heredocs) body.command.text += `\n${doc.content}${doc.name}`;
  }
  return body;
}

export function parseCmd(line: Line): Body<CmdInstruction> {
  line.flags.check({});
  return { kind: "cmd", command: command(line, line.required("a command, or []")) };
}

export function parseEntrypoint(line: Line): Body<EntrypointInstruction> {
  line.flags.check({});
  return { kind: "entrypoint", command: command(line, line.required("a command, or []")) };
}

export function parseShell(line: Line): Body<ShellInstruction> {
  line.flags.check({});
  const parsed = command(line, line.required('a JSON array such as ["/bin/sh", "-c"]'));
  if (parsed.form === "shell") {
    throw line.fail('it takes a JSON array only, such as ["/bin/sh", "-c"]');
  }
  if (parsed.args.length === 0) throw line.fail("its array is empty");
  return { kind: "shell", args: parsed.args };
}

export function parseHealthcheck(line: Line): Body<HealthcheckInstruction> {
  const [type, rest] = firstWord(line.required("CMD and a command, or NONE"));
  if (type.toUpperCase() === "NONE") {
    line.flags.check({});
    if (rest !== "") throw line.fail("HEALTHCHECK NONE takes no arguments");
    return { kind: "healthcheck" };
  }
  line.flags.check({
    interval: "text",
    timeout: "text",
    "start-period": "text",
    "start-interval": "text",
    retries: "text",
  });
  if (type.toUpperCase() !== "CMD") {
    const near = suggestion(type, ["CMD", "NONE"]);
    throw line.fail(`expected CMD or NONE, not ${JSON.stringify(type)}${near}`);
  }
  if (rest === "") throw line.fail("a command is missing behind HEALTHCHECK CMD");
  const test = command(line, rest);
  if (test.form === "exec" && test.args.length === 0) {
    throw line.fail("a command is missing behind HEALTHCHECK CMD");
  }
  const body: Body<HealthcheckInstruction> = { kind: "healthcheck", test };
  const durations = [
    ["interval", "interval"],
    ["timeout", "timeout"],
    ["start-period", "startPeriod"],
    ["start-interval", "startInterval"],
  ] as const;
  for (const [flag, field] of durations) {
    const value = line.flags.text(flag);
    if (value) body[field] = duration(line, flag, value);
  }
  const retries = line.flags.text("retries");
  if (retries) {
    if (!/^\+?\d{1,9}$/.test(retries)) {
      throw line.fail(`flag --retries is a number from 0, not ${JSON.stringify(retries)}`);
    }
    body.retries = Number(retries);
  }
  return body;
}

function duration(line: Line, flag: string, value: string): number {
  let milliseconds: number;
  try {
    milliseconds = parseDuration(value);
  } catch {
    throw line.fail(`flag --${flag} is a duration such as 30s or 1m30s, not "${value}"`);
  }
  if (milliseconds !== 0 && milliseconds < 1) {
    throw line.fail(`flag --${flag} is at least 1ms, not ${value}`);
  }
  return milliseconds;
}

/** Sources that run a program of the caller's: any command, and the code host's tool. */
import { SvcError } from "../base/errors.ts";
import { run } from "../base/process.ts";
import { ghCommand } from "./gh.ts";
import { parseText } from "./credential.ts";
import {
  cannotMake,
  MINUTE_MS,
  type SourceKind,
  type SourceRequest,
  textFormat,
} from "./source_kind.ts";

/** Milliseconds that a program may take: it may ask a person. */
const PATIENCE_MS = 2 * MINUTE_MS;

/**
 * What the program prints. Its words about a failure are told at the caller alone: they may have anything in
 * them.
 */
async function output(
  { name, around, signal }: SourceRequest,
  program: string,
  args: string[],
): Promise<string> {
  const late = AbortSignal.timeout(PATIENCE_MS);
  const result = await run(program, args, {
    cwd: around.folder,
    signal: AbortSignal.any([signal, late]),
  }).catch((error) => {
    if (late.aborted) throw cannotMake(name, "its program takes more than two minutes");
    const missing = error instanceof SvcError && error.code === "prerequisite_missing";
    if (missing) throw cannotMake(name, `its program ${program} is not there`);
    throw error;
  });
  if (result.code === 0) return result.stdout;
  const words = result.stderr.trim();
  if (words !== "") around.notice(`credential ${name}: ${words}`);
  throw cannotMake(name, `its program ended with ${result.code}`, "see its words at the caller");
}

export const EXEC: SourceKind = {
  help: "what a command prints, which the caller's shell runs",
  config: { command: "the command", format: "raw, json, env or aws; default raw" },
  required: ["command"],
  keepMs: 5 * MINUTE_MS,
  async make(request) {
    const { command } = request.config;
    const format = textFormat(request);
    const windows = Deno.build.os === "windows";
    const text = await output(request, windows ? "cmd.exe" : "/bin/sh", [
      windows ? "/c" : "-c",
      command,
    ]);
    return parseText(text, format, `what the command of ${request.name} prints`);
  },
};

export const GH: SourceKind = {
  help: "the token of the code host's tool: `gh auth token`",
  config: {
    host: "the code host; default the tool's",
    command: "the tool; it wins over SVC_GH_BIN, which wins over gh on PATH",
  },
  keepMs: 5 * MINUTE_MS,
  async make(request) {
    const { config: { command, host }, around: { ghBin, env }, name } = request;
    const args = ["auth", "token", ...host === undefined ? [] : ["--hostname", host]];
    const tool = await ghCommand({ configured: command, ghBin, env });
    if (!tool.found) throw cannotMake(name, `${tool.command} (${tool.source}) cannot be run`);
    const token = (await output(request, tool.found, args)).trim();
    if (!/^\S+$/.test(token)) {
      throw cannotMake(name, "the tool prints no token", "run `gh auth login`");
    }
    return { values: { token } };
  },
};

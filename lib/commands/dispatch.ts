/** From words to an exit code: parsing, help, and the one place where an error becomes text. */
import { asSvcError, isAbort, SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { BrokenPipe, type Io } from "../base/terminal.ts";
import { loadOptions } from "../config/load.ts";
import type { Command, Environment, Hooks, Invocation } from "./command.ts";
import { GLOBAL_OPTIONS, withGlobal } from "./options.ts";

export interface CliContext {
  env: Environment;
  io: Io;
  /** Runs `svc serve` with the words after its name; its exit code. */
  serve: (args: string[]) => Promise<number>;
  hooks?: Hooks;
}

/** Splits `--server X ps -a` into the command's name and all other words, in order. */
function splitCommand(args: readonly string[]): { name?: string; rest: string[] } {
  if (args.length > 0 && !args[0].startsWith("-")) return { name: args[0], rest: args.slice(1) };
  const { positionals } = loadOptions([...GLOBAL_OPTIONS, VERSION_FLAG], {
    args,
    allowPositionals: true,
    passThroughAfter: 1,
  });
  if (positionals.length === 0) return { rest: [...args] };
  let at = args.length - positionals.length;
  // The loader drops a "--" directly after the name: `at` is then one too far.
  if (args[at] === "--") at--;
  return { name: args[at], rest: [...args.slice(0, at), ...args.slice(at + 1)] };
}

const VERSION_FLAG = {
  key: "version",
  kind: "bool",
  flag: "version",
  help: "Show the version.",
  section: "Global options",
} as const;

function overview(table: readonly Command[]): string {
  const width = Math.max(...table.map((row) => row.name.length)) + 3;
  const rows = table.map((row) => `  ${row.name.padEnd(width)}${row.summary}\n`).join("");
  return "Usage: svc COMMAND [OPTIONS]\n\n" +
    "A registry, a builder and a runtime in one executable, and the client of them.\n\n" +
    `Commands:\n${rows}\nsvc COMMAND --help says more of a command.\n`;
}

function find(table: readonly Command[], name: string): Command {
  const row = table.find((row) => row.name === name);
  if (row) return row;
  throw new SvcError(
    "usage",
    `Cannot run ${name}: unknown command${suggestion(name, table.map((row) => row.name))}`,
    { help: "see `svc --help`" },
  );
}

/** The commands of a group, for its help. */
function listOf(children: readonly Command[]): string {
  const width = Math.max(...children.map((row) => row.name.length)) + 3;
  const rows = children.map((row) => `  ${row.name.padEnd(width)}${row.summary}\n`).join("");
  return `\nCommands:\n${rows}`;
}

async function help(row: Command, io: Io): Promise<number> {
  const { renderHelp } = await import("../config/help.ts");
  await io.stdout.write(renderHelp(
    {
      usage: `svc ${row.name} ${row.usage}`.trimEnd(),
      summary: row.summary,
      description: row.description,
      options: withGlobal(row.options),
      examples: row.examples,
    },
    Math.min(io.stdout.size()?.columns ?? 100, 100),
  ));
  if (row.children) await io.stdout.write(listOf(row.children));
  return 0;
}

function checkCount(row: Command, words: readonly string[]): void {
  const { min, max, names } = row.positionals ?? { min: 0, max: 0, names: "" };
  if (words.length >= min && words.length <= max) return;
  const why = words.length < min ? `${names} is missing` : `${words[max]} is one argument too many`;
  throw new SvcError("usage", `Cannot run ${row.name}: ${why}`, {
    help: `usage: svc ${row.name} ${row.usage}`.trimEnd(),
  });
}

/** Values of a group's options, for the command in it. */
interface Outer {
  values: Record<string, unknown>;
  sources: Partial<Record<string, string>>;
}

/** The row of the command in a group, under its whole name: "compose up". */
function childOf({ name, children = [] }: Command, word: string): Command {
  const row = children.find((child) => child.name === word);
  if (row) return { ...row, name: `${name} ${row.name}` };
  throw new SvcError(
    "usage",
    `Cannot run ${name} ${word}: unknown command${
      suggestion(word, children.map((child) => child.name))
    }`,
    { help: `see \`svc ${name} --help\`` },
  );
}

async function runGroup(
  row: Command,
  rest: string[],
  context: CliContext,
  commands: readonly Command[],
): Promise<number> {
  const { values, positionals: [word, ...words], sources } = loadOptions(
    withGlobal(row.options),
    {
      args: rest,
      env: context.env,
      allowPositionals: true,
      passThroughAfter: 1,
      command: `svc ${row.name}`,
    },
  );
  const asked = (values as { help?: boolean }).help || word === undefined || word === "help";
  if (asked && (word !== "help" || words.length === 0)) return await help(row, context.io);
  if (word === "help") {
    return await runCommand(childOf(row, words[0]), ["--help"], context, commands);
  }
  return await runCommand(childOf(row, word), words, context, commands, { values, sources });
}

/** Adds the group's values; a flag or variable of the command itself goes before one of the group. */
function merged(outer: Outer | undefined, { values, sources }: Outer): Outer {
  if (!outer) return { values, sources };
  const all = { ...outer.values, ...values };
  for (const [key, source] of Object.entries(outer.sources)) {
    const nearer = sources[key]?.startsWith("-") || !source?.startsWith("-") && key in values;
    if (!nearer) all[key] = outer.values[key];
  }
  return { values: all, sources: { ...outer.sources, ...sources } };
}

async function runCommand(
  row: Command,
  rest: string[],
  context: CliContext,
  commands: readonly Command[],
  outer?: Outer,
): Promise<number> {
  if (row.children) return await runGroup(row, rest, context, commands);
  const load = row.load;
  if (!load) return await context.serve(rest);
  const { values, positionals, sources } = loadOptions(withGlobal(row.options), {
    args: rest,
    env: context.env,
    allowPositionals: row.positionals !== undefined,
    passThroughAfter: row.passThroughAfter,
    command: `svc ${row.name}`,
  });
  if ((values as { help?: boolean }).help) return await help(row, context.io);
  checkCount(row, positionals);
  const { run } = await load();
  await using cleanup = new AsyncDisposableStack();
  return await run(
    {
      ...merged(outer, { values, sources }),
      cleanup,
      commands,
      positionals,
      env: context.env,
      io: context.io,
      hooks: context.hooks,
    } as Invocation<typeof row.options>,
  );
}

async function route(
  table: readonly Command[],
  args: readonly string[],
  context: CliContext,
): Promise<number> {
  const { name, rest } = splitCommand(args);
  if (name === undefined) {
    if (rest.includes("--version")) {
      return await runCommand(find(table, "version"), [], context, table);
    }
    await context.io.stdout.write(overview(table));
    return 0;
  }
  if (name !== "help") return await runCommand(find(table, name), rest, context, table);
  const topic = rest.find((word) => !word.startsWith("-"));
  if (topic !== undefined) return await runCommand(find(table, topic), ["--help"], context, table);
  await context.io.stdout.write(overview(table));
  return 0;
}

/** The lines of an error on standard error: what failed, why, and what to do. */
export function errorLines(error: SvcError): string {
  return `svc: ${error.message}\n${error.help ? `  ${error.help}\n` : ""}`;
}

/** Runs one command line. Does not throw for errors of a command or of its user. */
export async function dispatch(
  table: readonly Command[],
  args: readonly string[],
  context: CliContext,
): Promise<number> {
  const { io } = context;
  try {
    return await route(table, args, context);
  } catch (error) {
    if (error instanceof BrokenPipe) return 0;
    if (io.signal.aborted && (isAbort(error) || error === io.signal.reason)) {
      return (io.signal.reason as { exitCode?: number }).exitCode ?? 130;
    }
    // Ctrl-C in a menu sends no signal, but an error with this exit code.
    const { exitCode } = error as { exitCode?: number };
    if (isAbort(error) && exitCode !== undefined) return exitCode;
    const known = asSvcError(error);
    await io.stderr.write(errorLines(known));
    return known.exit;
  }
}

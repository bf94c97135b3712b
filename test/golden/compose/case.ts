/**
 * The cases of `svc compose config`: `cases/NAME.txt` has the files of a project after `=== PATH` lines, before
 * them `# args:` (words after "docker compose", default: config in four forms) and `# env: K=V`; `want/NAME.txt`
 * has what docker compose printed, by record.ts.
 */
import { dirname, join } from "node:path";

export const FOLDER = import.meta.dirname!;

export interface Case {
  name: string;
  files: Record<string, string>;
  env: Record<string, string>;
  /** Command lines, each after "compose". */
  runs: string[][];
}

/** What one command line gave. */
export interface Outcome {
  args: string;
  exit: number;
  /** Standard output; of one that failed, standard error. */
  text: string;
}

/** In the place of a hash that depends on where the project is. */
export const ELSEWHERE = "(depends on the directory)";

const FORMS = [
  ["config"],
  ["config", "--format", "json"],
  ["config", "--no-interpolate"],
  ["config", "--hash", "*"],
];

function sections(text: string): [head: string, body: string][] {
  return text.split(/^=== /m).slice(1).map((part) => {
    const end = part.indexOf("\n");
    return [part.slice(0, end), part.slice(end + 1)];
  });
}

export async function readCase(name: string): Promise<Case> {
  const text = await Deno.readTextFile(join(FOLDER, "cases", `${name}.txt`));
  const head = text.slice(0, text.search(/^=== /m));
  const args = /^# args: (.*)$/m.exec(head)?.[1].split(" ") ?? [];
  const env = Object.fromEntries(
    [...head.matchAll(/^# env: ([^=]*)=(.*)$/gm)].map(([, key, value]) => [key, value]),
  );
  const runs = args.includes("config") ? [args] : FORMS.map((form) => [...args, ...form]);
  return {
    name,
    files: Object.fromEntries(sections(text)),
    env: { HOME: "/home/someone", ...env },
    runs,
  };
}

export async function caseNames(): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of Deno.readDir(join(FOLDER, "cases"))) {
    names.push(name.replace(/\.txt$/, ""));
  }
  return names.sort();
}

/** Writes the files of a case below `directory`. */
export async function writeFiles({ files }: Case, directory: string): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const file = join(directory, path);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, text);
  }
}

export const formatOutcomes = (outcomes: readonly Outcome[]): string =>
  outcomes.map(({ args, exit, text }) =>
    `=== ${exit} ${args}\n${text}${text.endsWith("\n") ? "" : "\n"}`
  )
    .join("");

export async function readOutcomes(name: string): Promise<Outcome[]> {
  const text = await Deno.readTextFile(join(FOLDER, "want", `${name}.txt`));
  return sections(text).map(([head, body]) => {
    const [, exit, args] = /^(\d+) (.*)$/.exec(head)!;
    return { args, exit: Number(exit), text: body };
  });
}

/** Lines of tables whose order docker compose leaves to chance. */
const UNORDERED = ["--volumes", "--networks", "--images", "--models", "--variables", "--services"];

/** Output with the lines sorted whose order says nothing. */
export function stable(args: readonly string[], text: string): string {
  if (args.includes("--format") || !UNORDERED.some((flag) => args.includes(flag))) return text;
  const lines = text.replace(/\n+$/, "").split("\n");
  const head = args.includes("--variables") ? lines.splice(0, 1) : [];
  return [...head, ...lines.sort()].join("\n") + "\n";
}

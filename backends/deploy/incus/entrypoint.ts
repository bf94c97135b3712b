/**
 * A command, and an environment, as Incus takes them: lines, of which LXC takes the command's words apart. A word with
 * white space is between quotes of one kind, and LXC has no way to write such a quote in it. What no line holds comes
 * as a script in a variable, which the image's own shell runs.
 */

/** Holds the script. */
const VARIABLE = "SVC_COMMAND";
/** Runs it, and leaves nothing of the variable. */
const RUN = `eval "unset ${VARIABLE}; $(printf %b \"$${VARIABLE}\")"`;

const isWord = (word: string) =>
  !/[\r\n]/.test(word) && !(word.includes("'") && word.includes('"'));

/** A name that a shell can set. */
const NAME = /^[A-Za-z_]\w*$/;

/** For LXC. */
const quoted = (word: string) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;

/** For a shell. */
const literal = (word: string) => `'${word.replaceAll("'", "'\\''")}'`;

const escaped = (script: string) =>
  script.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r");

/** What is run, and what it finds in its environment. */
export interface Process {
  args: readonly string[];
  /** "NAME=value". */
  env: readonly string[];
}

const parted = (line: string): [name: string, value: string] => {
  const at = line.indexOf("=");
  return [line.slice(0, at), line.slice(at + 1)];
};

const ofLines = ([, value]: [string, string]) => /[\r\n]/.test(value);

/** Variables whose values have several lines, and which a shell can set. */
export const longVariables = (env: readonly string[]): Record<string, string> =>
  Object.fromEntries(env.map(parted).filter((one) => ofLines(one) && NAME.test(one[0])));

/** Names of those that no shell can set: Incus has no way for them. */
export const lostVariables = (env: readonly string[]): string[] =>
  env.map(parted).filter((one) => ofLines(one) && !NAME.test(one[0])).map(([name]) => name);

/** "environment.NAME" for each variable that a line holds; the last of a name counts. */
export const environmentOf = (env: readonly string[]): Record<string, string> =>
  Object.fromEntries(
    env.map(parted).filter((one) => !ofLines(one))
      .map(([name, value]) => [`environment.${name}`, value]),
  );

/** True where {@linkcode processOf} needs the image's `sh`. */
export const needsShell = ({ args, env }: Process): boolean =>
  !args.every(isWord) || Object.keys(longVariables(env)).length > 0;

/** The keys of the configuration. */
export function processOf(process: Process): Record<string, string> {
  const { args, env } = process;
  const entrypoint = (words: readonly string[]) => ({
    "oci.entrypoint": words.map(quoted).join(" "),
  });
  if (!needsShell(process)) return { ...environmentOf(env), ...entrypoint(args) };
  const set = Object.entries(longVariables(env))
    .map(([name, value]) => `export ${name}=${literal(value)}\n`);
  const script = `${set.join("")}exec ${args.map(literal).join(" ")}`;
  return {
    ...environmentOf(env),
    ...entrypoint(["sh", "-c", RUN]),
    [`environment.${VARIABLE}`]: escaped(script),
  };
}

/**
 * A command as Incus takes it: one line, whose words LXC takes apart. A word with white space is between quotes of
 * one kind, and LXC has no way to write such a quote in it.
 */
import { SvcError } from "../../../lib/base/errors.ts";

const SHELL = /(^|\/)(sh|bash|ash|dash|zsh|ksh)$/;
const SCRIPT = /^-[a-z]*c$/;
/** Holds a script that no line can. */
const VARIABLE = "SVC_COMMAND";
/** Runs it, and leaves nothing of the variable. */
const RUN = `eval "unset ${VARIABLE}; $(printf %b \"$${VARIABLE}\")"`;

const isWord = (word: string) =>
  !/[\r\n]/.test(word) && !(word.includes("'") && word.includes('"'));

const quoted = (word: string) =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;

const escaped = (script: string) =>
  script.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r");

/**
 * The keys of the configuration. The script of a shell comes in a variable where it cannot be a word. Throws
 * `unsupported` for other commands with such words.
 */
export function entrypoint(deployment: string, args: readonly string[]): Record<string, string> {
  const line = (words: readonly string[]) => ({ "oci.entrypoint": words.map(quoted).join(" ") });
  if (args.every(isWord)) return line(args);
  const [shell, option, script, ...rest] = args;
  if (SHELL.test(shell) && SCRIPT.test(option ?? "") && rest.every(isWord)) {
    return {
      ...line([shell, option, RUN, ...rest]),
      [`environment.${VARIABLE}`]: escaped(script),
    };
  }
  throw new SvcError(
    "unsupported",
    `Cannot deploy ${deployment}: Incus takes no argument with the end of a line, or with both ' and "`,
    { help: "put the command into a script of the image, or run it by sh -c" },
  );
}

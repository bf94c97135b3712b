/**
 * `svc completion SHELL`: a script that asks svc for candidates (`svc completion --candidates WORDS...`), so it
 * always agrees with the command table.
 */
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import type { AnyOption } from "../config/load.ts";
import { readProfile } from "../client/profile/file.ts";
import { profilePath } from "../client/profile/location.ts";
import type { Command, Environment, Invocation } from "./command.ts";

import { withGlobal } from "./options.ts";
import { MANAGED_VERBS } from "./workload_options.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;

const SCRIPTS: Record<typeof SHELLS[number], string> = {
  bash: `_svc() {
  local IFS=$'\\n' current="\${COMP_WORDS[COMP_CWORD]}"
  COMPREPLY=($(svc completion candidates -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  if [ "\${#COMPREPLY[@]}" = 1 ] && [ "\${COMPREPLY[0]}" = ":files" ]; then
    COMPREPLY=($(compgen -f -- "$current"))
    compopt -o filenames 2>/dev/null
  fi
}
complete -F _svc svc
`,
  zsh: `#compdef svc
_svc() {
  local -a found
  found=("\${(@f)$(svc completion candidates -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ "$found[1]" = ":files" ]]; then _files; else compadd -- $found; fi
}
compdef _svc svc
`,
  fish: `function __svc_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found (svc completion candidates -- $words[2..-1] 2>/dev/null)
  if test "$found[1]" = ":files"
    __fish_complete_path (commandline -ct)
  else
    string join \\n -- $found
  end
end
complete -c svc -f -a '(__svc_complete)'
`,
};

/** Tells the script to complete names of files. */
export const FILES = ":files";

/** First words of the commands that have verbs. */
const VERBS: Record<string, readonly string[]> = {
  config: [
    "get-contexts",
    "current-context",
    "use-context",
    "set-context",
    "delete-context",
    "view",
  ],
  token: ["issue"],
  storage: ["usage", "verify"],
  doctor: ["storage"],
  volume: MANAGED_VERBS,
  network: MANAGED_VERBS,
  completion: SHELLS,
};

/** Verbs whose next word is a context's name. */
const NAMES_CONTEXT = new Set(["use-context", "set-context", "delete-context", "view"]);

const PATHS = /^(PATH|FILE|DIR|CONTEXT|SPEC|SRC or DST)$/;

function flagsOf(options: readonly AnyOption[]): string[] {
  return options.flatMap(({ flag, negatable }) =>
    flag === undefined ? [] : negatable ? [`--${flag}`, `--no-${flag}`] : [`--${flag}`]
  );
}

interface Position {
  command?: Command;
  /** Positional words before the one that is completed. */
  words: string[];
  /** The option whose value is completed. */
  option?: AnyOption;
}

function positionOf(table: readonly Command[], before: readonly string[]): Position {
  const position: Position = { words: [] };
  for (let i = 0; i < before.length; i++) {
    const word = before[i];
    if (word.startsWith("-") && word !== "-") {
      const options = withGlobal(position.command?.options ?? []);
      const name = word.replace(/^--?/, "");
      const option = options.find(({ flag, short }) =>
        word.startsWith("--") ? flag === name : short === name
      );
      if (!option || option.kind === "bool") continue;
      if (i === before.length - 1) position.option = option;
      i++;
    } else if (!position.command && position.words.length === 0) {
      position.command = table.find(({ name }) => name === word);
      if (!position.command) position.words.push(word);
    } else position.words.push(word);
  }
  return position;
}

async function contexts(env: Environment): Promise<string[]> {
  const path = profilePath({ os: Deno.build.os, env, explicit: env.SVC_CONFIG });
  return Object.keys((await readProfile(path).catch(() => ({ contexts: {} }))).contexts);
}

/** Candidates for the last word. */
export async function candidates(
  table: readonly Command[],
  words: readonly string[],
  env: Environment,
): Promise<string[]> {
  const last = words.at(-1) ?? "";
  const { command, words: given, option } = positionOf(table, words.slice(0, -1));
  const matching = (found: readonly string[]) =>
    found.filter((word) => word.startsWith(last)).sort();
  if (option) {
    if (option.key === "context") return matching(await contexts(env));
    if (option.choices) return matching(option.choices);
    return option.placeholder && PATHS.test(option.placeholder) ? [FILES] : [];
  }
  const options = withGlobal(command?.options ?? []);
  if (last.startsWith("-")) return matching(flagsOf(options));
  if (!command) return given.length > 0 ? [] : matching([...table.map(({ name }) => name), "help"]);
  const verbs = command.children?.map(({ name }) => name) ?? VERBS[command.name];
  if (verbs && given.length === 0) return matching(verbs);
  if (command.name === "config" && given.length === 1 && NAMES_CONTEXT.has(given[0])) {
    return matching(await contexts(env));
  }
  return PATHS.test(command.positionals?.names ?? "") ? [FILES] : [];
}

export async function run(invocation: Invocation): Promise<number> {
  const { positionals, io, env, commands = [] } = invocation;
  const [shell, ...words] = positionals;
  if (shell === "candidates") {
    const found = await candidates(commands, words, env);
    await io.stdout.write(found.map((word) => word + "\n").join(""));
    return 0;
  }
  const script = SCRIPTS[shell as keyof typeof SCRIPTS];
  if (script === undefined) {
    throw new SvcError(
      "usage",
      `Cannot complete in ${shell}: it is none of ${SHELLS.join(", ")}${suggestion(shell, SHELLS)}`,
    );
  }
  await io.stdout.write(script);
  return 0;
}

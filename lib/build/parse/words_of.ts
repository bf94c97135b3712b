/** The words of an instruction that the build expands. */
import type { FromInstruction, Instruction, Word } from "./ast.ts";

/**
 * Words that are expanded before the instruction takes effect, without heredocs. Variables in RUN, CMD,
 * ENTRYPOINT, SHELL, HEALTHCHECK and MAINTAINER are not expanded here; of RUN only the mounts are. ONBUILD is
 * expanded by the build that it triggers in.
 */
export function wordsOf(instruction: FromInstruction | Instruction): Word[] {
  switch (instruction.kind) {
    case "from":
      return defined([instruction.image, instruction.platform]);
    case "run":
      return instruction.mounts.flatMap((mount) =>
        defined(mount.options.map((option) => option.value))
      );
    case "copy":
    case "add":
      return defined([
        ...instruction.sources,
        instruction.destination,
        instruction.chown,
        instruction.chmod,
        ...instruction.exclude,
        instruction.kind === "add" ? instruction.checksum : undefined,
      ]);
    case "env":
    case "label":
      return instruction.pairs.flatMap(({ key, value }) => [key, value]);
    case "arg":
      return defined(instruction.args.flatMap(({ key, value }) => [key, value]));
    case "workdir":
      return [instruction.path];
    case "user":
      return [instruction.user];
    case "expose":
      return instruction.ports;
    case "volume":
      return instruction.paths;
    case "stopsignal":
      return [instruction.signal];
    case "shell":
    case "entrypoint":
    case "cmd":
    case "healthcheck":
    case "onbuild":
    case "maintainer":
      return [];
  }
}

function defined(words: (Word | undefined)[]): Word[] {
  return words.filter((word) => word !== undefined);
}

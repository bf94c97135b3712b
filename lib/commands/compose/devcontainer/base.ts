/** What is known of a dev container's image before it is built: what a Dockerfile says, and the image below that. */
import { SvcError } from "../../../base/errors.ts";
import { resolve } from "../../../base/path.ts";
import type { Command, Dockerfile, Stage, Word } from "../../../build/parse/ast.ts";
import { expand, scopeOf } from "../../../build/parse/expand.ts";
import { parseDockerfile } from "../../../build/parse/parse.ts";
import { DEFAULT_SHELL } from "../../../build/parse/predefined.ts";
import { Files } from "../../../compose/files.ts";
import type { Build, Service } from "../../../compose/service.ts";
import type { ContainerConfig } from "../../../oci/types.ts";
import type { Registries } from "../../../transfer/registries.ts";
import { hubName, imageConfig } from "../server_images.ts";

export interface Base {
  /** The image at the bottom; undefined: there is none, or it cannot be told. */
  image?: string;
  /** Labels are those of that image; the rest is what the Dockerfile makes of it. */
  config: ContainerConfig;
  /** The Dockerfile, with a name for its last stage; "" where there is none. */
  text: string;
  /** What features are installed above: an image, or a stage of the text. */
  from: string;
}

const isElsewhere = (context: string) => /^\w+:\/\/|^git@|^github\.com\//.test(context);

/** The stage that is built and those that it begins with, the lowest first; and the image below them. */
function chainOf({ stages }: Dockerfile, target: string | undefined, read: (word: Word) => string) {
  const chain: Stage[] = [];
  const named = (name: string, below = stages.length) =>
    stages.findLast((one) => one.index < below && one.name === name.toLowerCase());
  let stage = target ? named(target) ?? stages[Number(target)] : stages.at(-1);
  let image = target ?? "scratch";
  while (stage) {
    chain.unshift(stage);
    image = read(stage.from.image);
    stage = named(image, stage.index);
  }
  return { chain, image: image === "scratch" ? undefined : image };
}

/** Applies what the stages say of the user and the process. */
function applied(
  base: ContainerConfig,
  chain: readonly Stage[],
  read: (word: Word) => string,
): ContainerConfig {
  const config = { ...base };
  const wordsOf = (command: Command) =>
    command.form === "exec" ? command.args : [...config.Shell ?? DEFAULT_SHELL, command.text];
  for (const { instructions } of chain) {
    let ownCommand = false;
    for (const one of instructions) {
      if (one.kind === "user") config.User = read(one.user);
      else if (one.kind === "shell") config.Shell = one.args;
      else if (one.kind === "cmd") [config.Cmd, ownCommand] = [wordsOf(one.command), true];
      else if (one.kind === "entrypoint") {
        config.Entrypoint = wordsOf(one.command);
        if (!ownCommand) config.Cmd = [];
      }
    }
  }
  return config;
}

/** The values of words, by the variables that the text itself and the build's arguments set. */
function reader({ globalArgs, stages, directives: { escape } }: Dockerfile, args: Build["args"]) {
  const values = new Map<string, string>();
  const read = (word: Word) => expand(word, scopeOf(values), { escape }).value;
  for (const { key, value } of globalArgs.flatMap((one) => one.args)) {
    const given = args?.[read(key)] ?? (value && read(value));
    if (given !== undefined) values.set(read(key), given);
  }
  for (const one of stages.flatMap(({ instructions }) => instructions)) {
    if (one.kind === "env") {
      for (const { key, value } of one.pairs) values.set(read(key), read(value));
    }
    if (one.kind !== "arg") continue;
    for (const { key, value } of one.args) {
      const given = args?.[read(key)] ?? (value && read(value));
      if (given !== undefined) values.set(read(key), given);
    }
  }
  return read;
}

/**
 * Reads the Dockerfile, and asks registries for the image. `fresh`: an image that is to be pulled is read where it is
 * pulled from. `warn` is told of an image that cannot be looked at.
 */
export async function baseOf(
  { image, build }: Service,
  { registries, fresh, signal, warn }: {
    registries: Registries;
    fresh: boolean;
    signal: AbortSignal;
    warn: (text: string) => void;
  },
): Promise<Base> {
  const configOf = (name: string | undefined) =>
    name === undefined ? undefined : imageConfig(registries, name, signal).catch((error) => {
      if (!(error instanceof SvcError)) throw error;
      warn(`what ${name} says of dev containers is not known: ${error.message}`);
      return undefined;
    });
  if (!build) {
    const from = fresh && hubName(image!) || image!;
    return { image, config: await configOf(from) ?? {}, text: "", from };
  }
  const { context, dockerfile = "Dockerfile", dockerfile_inline: inline, target } = build;
  if (inline === undefined && isElsewhere(context!)) {
    throw new SvcError("unsupported", `Cannot read the Dockerfile of ${context}`, {
      help: "bring it onto this machine, or leave out --devcontainer",
    });
  }
  const text = inline ?? await new Files().text(resolve(context!, dockerfile));
  const parsed = parseDockerfile(text, { file: dockerfile });
  const read = reader(parsed, build.args);
  const { chain, image: below } = chainOf(parsed, target, read);
  const config = applied(await configOf(below) ?? {}, chain, read);
  const last = parsed.stages.at(-1)!;
  if (target ?? last.name) return { image: below, config, text, from: target ?? last.name! };
  const lines = text.split("\n");
  lines[last.from.endLine - 1] = `${lines[last.from.endLine - 1].trimEnd()} AS svc_base`;
  return { image: below, config, text: lines.join("\n"), from: "svc_base" };
}

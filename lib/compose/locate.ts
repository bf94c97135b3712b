/** Finds what a project is made of before a file is read as YAML: files, directory, variables, its name. */
import { basename, dirname, join, resolve } from "node:path";
import { SvcError } from "../base/errors.ts";
import { envOfFiles } from "./environment.ts";
import { type Files, isFile } from "./files.ts";
import { type Interpolator, TemplateError } from "./interpolate.ts";
import type { LoadOptions } from "./project.ts";

const FILES = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];
const OVERRIDES = FILES.map((name) => name.replace(".", ".override."));
/** docker compose prefers `.yml` here. */
const OVERRIDE_FILES = [OVERRIDES[1], OVERRIDES[0], OVERRIDES[2], OVERRIDES[3]];

export interface Located {
  /** Absolute; "-" is standard input. */
  files: string[];
  directory: string;
  environment: Map<string, string>;
  profiles: string[];
}

interface Search {
  options: LoadOptions;
  cwd: string;
  reader: Files;
  warn: (text: string) => void;
}

function callersVariables({ options: { env }, cwd }: Search): Map<string, string> {
  const variables = new Map<string, string>();
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined) variables.set(name, value);
  }
  if (!variables.has("PWD")) variables.set("PWD", cwd);
  return variables;
}

/** Where relative paths begin: asked for, else where the first file is, else here. */
function directoryOf(files: readonly string[], { options, cwd }: Search): string {
  if (options.projectDirectory) return resolve(cwd, options.projectDirectory);
  const first = files.find((file) => file !== "-");
  return first === undefined ? cwd : dirname(resolve(cwd, first));
}

async function addDotenv(
  variables: Map<string, string>,
  files: readonly string[],
  search: Search,
): Promise<void> {
  const { options: { envFiles, env }, cwd, reader, warn } = search;
  const listed = envFiles.length > 0
    ? envFiles
    : (env.COMPOSE_ENV_FILES ?? "").split(",").filter((name) => name !== "");
  let names = listed.map((name) => resolve(cwd, name));
  if (listed.length === 0) {
    const disabled = /^(1|t|true)$/i.test(env.COMPOSE_DISABLE_ENV_FILE ?? "");
    const usual = join(directoryOf(files, search), ".env");
    names = !disabled && await isFile(usual) ? [usual] : [];
  }
  const found = await envOfFiles(names, variables, reader, warn);
  for (const [name, value] of found) if (!variables.has(name)) variables.set(name, value);
}

async function present(names: readonly string[], directory: string): Promise<string[]> {
  const paths = names.map((name) => join(directory, name));
  const there = await Promise.all(paths.map(isFile));
  return paths.filter((_, index) => there[index]);
}

/** The first of the usual files, here or in a directory above, with the override file beside it. */
async function discover(start: string, warn: (text: string) => void): Promise<string[]> {
  for (let directory = start;; directory = dirname(directory)) {
    const found = await present(FILES, directory);
    if (found.length > 1) {
      warn(`Found multiple config files with supported names: ${found.join(", ")}`);
      warn(`Using ${found[0]}`);
    }
    if (found.length > 0) {
      const overrides = await present(OVERRIDE_FILES, directory);
      if (overrides.length > 1) {
        warn(`Found multiple override files with supported names: ${overrides.join(", ")}`);
        warn(`Using ${overrides[0]}`);
      }
      return [found[0], ...overrides.slice(0, 1)];
    }
    if (directory === dirname(directory)) return [];
  }
}

/** Throws `not_found` where there is no Compose file. */
export async function locate(search: Search): Promise<Located> {
  const { options, cwd, warn } = search;
  const variables = callersVariables(search);
  let files = options.files.map((file) => file === "-" ? file : resolve(cwd, file));
  await addDotenv(variables, files, search);
  if (files.length === 0 && variables.has("COMPOSE_FILE")) {
    const separator = variables.get("COMPOSE_PATH_SEPARATOR") ||
      (Deno.build.os === "windows" ? ";" : ":");
    files = variables.get("COMPOSE_FILE")!.split(separator)
      .map((file) => file === "-" ? file : resolve(cwd, file));
  }
  if (files.length === 0) files = await discover(directoryOf([], search), warn);
  if (files.length === 0) {
    throw new SvcError("not_found", "Cannot find a Compose file: there is none here or above", {
      help: `name one with -f, or make ${FILES[0]}`,
    });
  }
  await addDotenv(variables, files, search);
  const profiles = options.profiles.length > 0
    ? [...options.profiles]
    : (variables.get("COMPOSE_PROFILES") ?? "").split(",").map((name) => name.trim())
      .filter((name) => name !== "");
  return { files, directory: directoryOf(files, search), environment: variables, profiles };
}

/** What is left of a text when it is made a project's name. */
export function projectNameOf(text: string): string {
  return text.toLowerCase().replace(/[^a-z0-9_-]/g, "").replace(/^[_-]+/, "");
}

function checked(name: string, source: string): string {
  if (name === projectNameOf(name)) return name;
  throw new SvcError(
    "argument_invalid",
    `Cannot name the project ${
      JSON.stringify(name)
    } (${source}): it has other characters than a name may have`,
    {
      help:
        "it has small letters, digits, dashes and underscores, and begins with a letter or a digit",
    },
  );
}

/** The project's name: asked for, COMPOSE_PROJECT_NAME, the files' `name`, else the directory's. */
export function nameProject(
  { files, directory, environment }: Located,
  asked: string | undefined,
  written: string | undefined,
  interpolator: Interpolator | undefined,
  normalised: boolean,
): string {
  if (asked) return checked(asked, "--project-name");
  const variable = environment.get("COMPOSE_PROJECT_NAME");
  if (variable) return checked(variable, "COMPOSE_PROJECT_NAME");
  let text = written;
  try {
    if (text !== undefined && interpolator) text = interpolator.substitute(text);
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    throw new SvcError("compose_invalid", `Cannot read ${files[0]}: name: ${error.message}`, {
      ...(error.help && { help: error.help }),
    });
  }
  const name = (text && (normalised ? projectNameOf(text) : text)) ||
    projectNameOf(basename(directory));
  if (name) return name;
  throw new SvcError("argument_invalid", "Cannot name the project: nothing gives it a name", {
    help: "name it with --project-name",
  });
}

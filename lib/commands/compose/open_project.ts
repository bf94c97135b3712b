/** The project that a command line means. */
import { SvcError } from "../../base/errors.ts";
import { resolve } from "../../base/path.ts";
import type { Devcontainer } from "../../compose/devcontainer/read.ts";
import type { LoadedProject, LoadOptions } from "../../compose/project.ts";
import { enableNamed } from "../../compose/select.ts";
import type { Values } from "../../config/load.ts";
import type { Invocation } from "../command.ts";
import type { PROJECT_OPTIONS } from "./options.ts";

/** What every command of `svc compose` has. */
export type ProjectInvocation = Invocation<typeof PROJECT_OPTIONS>;

/** What a command line and an environment say of the project. */
export function projectLoadOptions(
  values: Partial<Values<typeof PROJECT_OPTIONS>>,
  env: LoadOptions["env"],
  more: Pick<LoadOptions, "cwd" | "stdin"> = {},
): LoadOptions {
  return {
    files: values.composeFiles ?? [],
    projectDirectory: values.projectDirectory,
    projectName: values.projectName,
    profiles: values.profiles ?? [],
    env,
    envFiles: values.envFiles ?? [],
    ...more,
  };
}

export function loadOptionsOf({ values, env, io }: ProjectInvocation): LoadOptions {
  const stdin = () => new Response(io.stdin.readable as BodyInit).text();
  return projectLoadOptions(values, env, { cwd: Deno.cwd(), stdin });
}

/**
 * The devcontainer.json that the project is taken from: named by -f, asked for by --devcontainer, or found where
 * there is no Compose file. Throws `not_found` where one is asked for and there is none.
 */
export async function devcontainerOf(
  { values }: Pick<ProjectInvocation, "values">,
  options: LoadOptions,
  asked = values.devcontainer ?? false,
): Promise<Devcontainer | undefined> {
  const { files, env, cwd = Deno.cwd() } = options;
  const named = files.length === 1 && /(^|[\\/])\.?devcontainer\.json$/.test(files[0]);
  if (!named && !asked) return undefined;
  const { findDevcontainer, readDevcontainer } = await import(
    "../../compose/devcontainer/read.ts"
  );
  const file = named ? resolve(cwd, files[0]) : await findDevcontainer(cwd);
  if (file !== undefined) {
    return await readDevcontainer(file, env, { asked: named || values.devcontainer === true });
  }
  throw new SvcError("not_found", "Cannot find devcontainer.json: there is none here or above", {
    help: "make .devcontainer/devcontainer.json, or name one with -f",
  });
}

/** The project, of the devcontainer.json where there is one. */
export async function loadFrom(options: LoadOptions, found: Devcontainer | undefined) {
  const { loadProject } = await import("../../compose/load.ts");
  if (!found) return await loadProject(options);
  const { devcontainerOptions } = await import("../../compose/devcontainer/model.ts");
  const loaded = await loadProject(devcontainerOptions(found, options));
  const warnings = [...found.warnings, ...loaded.warnings];
  return { ...loaded, warnings, devcontainer: found };
}

async function load(invocation: ProjectInvocation): Promise<LoadedProject> {
  const options = loadOptionsOf(invocation);
  const found = await devcontainerOf(invocation, options);
  try {
    return await loadFrom(options, found);
  } catch (error) {
    const missing = error instanceof SvcError && error.code === "not_found";
    if (!missing || found || options.files.length > 0) throw error;
    // A project that is named is looked for by its name, not by a file that lies about.
    if (options.projectName ?? options.env.COMPOSE_PROJECT_NAME) throw error;
    const discovered = await devcontainerOf(invocation, options, true).catch((other) => {
      throw other instanceof SvcError && other.code === "not_found" ? error : other;
    });
    return await loadFrom(options, discovered);
  }
}

/** Loads the project, with the profiles of the named services active; warnings go to standard error. */
export async function openProject(
  invocation: ProjectInvocation,
  names: readonly string[] = [],
): Promise<LoadedProject> {
  const { io } = invocation;
  const loaded = enableNamed(await load(invocation), names);
  for (const warning of loaded.warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  return loaded;
}

/** A project by its files, or by its name alone where there are none. */
export interface NamedProject {
  name: string;
  loaded?: LoadedProject;
}

/** For commands on what runs: they need no files where the name is given. */
export async function nameProject(
  invocation: ProjectInvocation,
  names?: readonly string[],
): Promise<NamedProject> {
  const { values, env } = invocation;
  const name = values.projectName ?? env.COMPOSE_PROJECT_NAME;
  try {
    const loaded = await openProject(invocation, names);
    return { name: loaded.project.name, loaded };
  } catch (error) {
    const missing = error instanceof SvcError && error.code === "not_found";
    if (!missing || !name || values.composeFiles?.length) throw error;
    return { name };
  }
}

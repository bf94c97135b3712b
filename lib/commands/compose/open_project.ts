/** The project that a command line means. */
import { SvcError } from "../../base/errors.ts";
import type { LoadedProject, LoadOptions } from "../../compose/project.ts";
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

/** Loads the project; warnings go to standard error. */
export async function openProject(invocation: ProjectInvocation): Promise<LoadedProject> {
  const { io } = invocation;
  const { loadProject } = await import("../../compose/load.ts");
  const loaded = await loadProject(loadOptionsOf(invocation));
  for (const warning of loaded.warnings) await io.stderr.write(`svc: warning: ${warning}\n`);
  return loaded;
}

/** A project by its files, or by its name alone where there are none. */
export interface NamedProject {
  name: string;
  loaded?: LoadedProject;
}

/** For commands on what runs: they need no files where the name is given. */
export async function nameProject(invocation: ProjectInvocation): Promise<NamedProject> {
  const { values, env } = invocation;
  const name = values.projectName ?? env.COMPOSE_PROJECT_NAME;
  try {
    const loaded = await openProject(invocation);
    return { name: loaded.project.name, loaded };
  } catch (error) {
    const missing = error instanceof SvcError && error.code === "not_found";
    if (!missing || !name || values.composeFiles?.length) throw error;
    return { name };
  }
}

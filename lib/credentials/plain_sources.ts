/** Sources that need no program: values of the spec itself, of the environment, of a file. */
import { join, resolve } from "node:path";
import { parseText } from "./credential.ts";
import {
  cannotMake,
  MINUTE_MS,
  type SourceKind,
  type SourceRequest,
  type Surroundings,
  textFormat,
} from "./source_kind.ts";

/** Characters of a file, at most. */
const MAX_FILE = 256 * 1024;

export const STATIC: SourceKind = {
  help: "the values of `config` themselves",
  config: "any",
  make: ({ config }) => Promise.resolve({ values: { ...config } }),
};

export const ENV: SourceKind = {
  help: "variables of the caller's environment: value's name to variable's name",
  config: "any",
  make: ({ name, config, around }) => {
    const values = Object.entries(config).map(([key, variable]) => {
      const value = around.env[variable];
      if (value === undefined) throw cannotMake(name, `the variable ${variable} is not set`);
      return [key, value] as const;
    });
    return Promise.resolve({ values: Object.fromEntries(values) });
  },
};

/** The caller's home folder. Throws where the environment does not have it. */
export function homeOf({ env }: Surroundings, name: string): string {
  const home = env.HOME ?? env.USERPROFILE;
  if (home) return home;
  throw cannotMake(name, "the home folder is not known", "set HOME");
}

/** Reads a file of the caller's. Throws with its path alone. */
export async function readOwnFile(path: string, name: string): Promise<string> {
  try {
    const { size, isFile } = await Deno.stat(path);
    if (!isFile || size > MAX_FILE) throw cannotMake(name, `${path} is no file of up to 256 KiB`);
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) throw cannotMake(name, `there is no ${path}`);
    if (error instanceof Deno.errors.PermissionDenied) {
      throw cannotMake(name, `${path} may not be read`);
    }
    throw error;
  }
}

function pathOf({ name, config: { path }, around }: SourceRequest): string {
  return path.startsWith("~/")
    ? join(homeOf(around, name), path.slice(2))
    : resolve(around.folder, path);
}

export const FILE: SourceKind = {
  help: "a file of the caller's",
  config: { path: "the file; ~/ is the home folder", format: "raw, json, env or aws; default raw" },
  required: ["path"],
  keepMs: 5 * MINUTE_MS,
  async make(request) {
    const format = textFormat(request);
    const path = pathOf(request);
    return parseText(await readOwnFile(path, request.name), format, `the file of ${request.name}`);
  },
};

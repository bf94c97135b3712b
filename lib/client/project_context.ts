/**
 * The project's own context document (SPEC.md "Project context override"): found in the working folder or above
 * it, or named. A document that was only found is not trusted.
 */
import { dirname, join, resolve } from "../base/path.ts";
import { fileTrouble, SvcError } from "../base/errors.ts";
import { homeFolder } from "./profile/location.ts";
import { absolutePaths } from "./profile/paths.ts";
import type { Context } from "./profile/types.ts";
import { checkContext } from "./profile/validate.ts";

const CONTEXT_FILES = [
  "svc-context.json",
  "svc-context.yaml",
  "svc-context.yml",
  "svc-context.toml",
] as const;

export interface ProjectInput {
  os: typeof Deno.build.os;
  env: Readonly<Record<string, string | undefined>>;
  cwd: string;
  /** `--context-file` or `SVC_CONTEXT_FILE`. */
  file?: string;
  /** `--no-context-file`. */
  disabled?: boolean;
  /** `--trust-context-file` or `SVC_TRUST_CONTEXT_FILE`. */
  trusted?: boolean;
  warn: (text: string) => void;
  /** User id of the caller; absent where the system has none. */
  uid?: number | null;
}

export interface ProjectContext {
  path: string;
  context: Context;
}

/** Called for every folder above, mostly without a result: an asynchronous call costs several times as much. */
function isThere(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The nearest context document; the search ends at the repository's root or the home folder. */
function discover({ cwd, os, env }: ProjectInput): string | undefined {
  const home = homeFolder({ os, env });
  for (let folder = resolve(cwd);; folder = dirname(folder)) {
    for (const name of CONTEXT_FILES) {
      const path = join(folder, name);
      if (isThere(path)) return path;
    }
    if (folder === home || folder === dirname(folder)) return undefined;
    if (isThere(join(folder, ".git"))) return undefined;
  }
}

/** Why a document that was found is ignored; undefined where it may be read. */
async function objection(
  path: string,
  uid: number | null | undefined,
): Promise<string | undefined> {
  const info = await Deno.lstat(path);
  if (info.isSymlink) return "it is a link";
  if (!info.isFile) return "it is not a file";
  if (uid === undefined || uid === null) return undefined;
  if (info.uid !== uid) return "it belongs to another user";
  if ((info.mode! & 0o002) !== 0) return "everybody can write to it";
  const folder = await Deno.stat(dirname(path));
  const open = (folder.mode! & 0o002) !== 0 && (folder.mode! & 0o1000) === 0;
  return open ? "everybody can write to its folder" : undefined;
}

async function parse(text: string, path: string): Promise<unknown> {
  const wrong = (cause: unknown, kind: string) =>
    // The parser's message quotes the text, which may hold a token: it is not shown.
    new SvcError("config_invalid", `Cannot read ${path}: it is not ${kind}`, {
      cause: new Error((cause as Error).name),
      help: "correct the file, or pass --no-context-file",
    });
  if (path.endsWith(".toml")) {
    const { parse } = await import("smol-toml");
    try {
      return parse(text);
    } catch (cause) {
      throw wrong(cause, "TOML");
    }
  }
  if (path.endsWith(".json")) {
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw wrong(cause, "JSON");
    }
  }
  const { parse } = await import("./yaml.ts");
  try {
    return parse(text, { maxAliasCount: 100, logLevel: "error" });
  } catch (cause) {
    throw wrong(cause, "YAML");
  }
}

async function load(path: string, home?: string): Promise<Context> {
  const context = checkContext(await parse(await Deno.readTextFile(path), path), path);
  return absolutePaths(context, dirname(resolve(path)), home);
}

/** `server, token and tls` */
function listed(names: string[]): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

async function explicit(file: string, home?: string): Promise<ProjectContext> {
  try {
    return { path: file, context: await load(file, home) };
  } catch (cause) {
    if (cause instanceof SvcError) throw cause;
    throw new SvcError(
      "config_invalid",
      `Cannot read context file ${file}: ${fileTrouble(cause)}`,
      {
        cause,
        help: "correct --context-file or SVC_CONTEXT_FILE",
      },
    );
  }
}

/** The only field that an untrusted document may set. */
const UNTRUSTED_FIELD = "via-server";

/**
 * The project's override; undefined where there is none. Throws `usage` for flags that exclude each other and
 * `config_invalid` for a named or trusted file that cannot be read. An untrusted document that is ignored, or
 * whose fields are dropped, gives a warning.
 */
export async function projectContext(input: ProjectInput): Promise<ProjectContext | undefined> {
  const home = homeFolder(input);
  if (input.disabled && input.file !== undefined) {
    throw new SvcError(
      "usage",
      "Cannot use --no-context-file with --context-file: they exclude each other",
      {
        help: "leave one out; SVC_CONTEXT_FILE counts as --context-file",
      },
    );
  }
  if (input.disabled) return undefined;
  if (input.file !== undefined) return await explicit(resolve(input.cwd, input.file), home);
  const path = discover(input);
  if (path === undefined) return undefined;
  const why = await objection(path, input.uid);
  if (why) {
    input.warn(`ignoring ${path}: ${why}`);
    return undefined;
  }
  if (input.trusted) return { path, context: await load(path, home) };
  let context: Context;
  try {
    context = await load(path, home);
  } catch (error) {
    input.warn(`ignoring ${path}: ${(error as Error).message}`);
    return undefined;
  }
  const stripped = Object.keys(context).filter((name) => name !== UNTRUSTED_FIELD);
  if (stripped.length > 0) {
    input.warn(
      `ignoring ${listed(stripped)} of ${path}: the file was found, not named; ` +
        `--trust-context-file or --context-file ${path} trusts it`,
    );
  }
  return { path, context: { "via-server": context["via-server"] } };
}

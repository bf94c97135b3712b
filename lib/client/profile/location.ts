/** Where the connection profile lies (SPEC.md "Client connection profile file", location rules). */
import { posix, windows } from "../../base/path.ts";
import { SvcError } from "../../base/errors.ts";

export interface LocationInput {
  os: typeof Deno.build.os;
  env: Readonly<Record<string, string | undefined>>;
  /** `--config-file`, or `SVC_CONFIG`. */
  explicit?: string;
}

/** The home folder; undefined where the environment names none. */
export function homeFolder({ os, env }: Pick<LocationInput, "os" | "env">): string | undefined {
  return (os === "windows" ? env.USERPROFILE : env.HOME) || undefined;
}

/**
 * The profile file's path; undefined where no folder is known (no `HOME`), which is as if the file were
 * missing.
 */
export function profilePath(input: LocationInput): string | undefined {
  const { os, env, explicit } = input;
  if (explicit) return explicit;
  const { join } = os === "windows" ? windows() : posix;
  if (env.XDG_CONFIG_HOME) return join(env.XDG_CONFIG_HOME, "svc", "config.yaml");
  if (os === "windows") return env.APPDATA ? join(env.APPDATA, "svc", "config.yaml") : undefined;
  const home = homeFolder(input);
  if (!home) return undefined;
  return os === "darwin"
    ? join(home, "Library", "Application Support", "svc", "config.yaml")
    : join(home, ".config", "svc", "config.yaml");
}

/** As {@linkcode profilePath}; throws where no folder is known. */
export function requireProfilePath(input: LocationInput): string {
  const path = profilePath(input);
  if (path) return path;
  throw new SvcError(
    "config_invalid",
    "Cannot find the connection profile: the environment names no home folder",
    { help: "set SVC_CONFIG or --config-file" },
  );
}

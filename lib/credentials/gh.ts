/** The code host's command-line tool that a credential source runs (SPEC.md, `SVC_GH_BIN`). */
import { delimiter, isAbsolute, join, resolve } from "node:path";

export interface GhInput {
  /** `config.command` of the spec's source; it goes before all others. */
  configured?: string;
  /** `SVC_GH_BIN`. */
  ghBin?: string;
  env: Readonly<Record<string, string | undefined>>;
}

export interface GhCommand {
  command: string;
  /** "config.command", "SVC_GH_BIN" or "default". */
  source: string;
  /** The program's path; absent: there is none that can be run. */
  found?: string;
}

async function runnable(path: string): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => undefined);
  return info?.isFile === true && (Deno.build.os === "windows" || (info.mode! & 0o111) !== 0);
}

async function find(command: string, env: GhInput["env"]): Promise<string | undefined> {
  const names = Deno.build.os === "windows" ? [command, `${command}.exe`] : [command];
  const folders = isAbsolute(command) || /[/\\]/.test(command)
    ? [""]
    : (env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  for (const folder of folders) {
    for (const name of names) {
      const path = folder === "" ? resolve(name) : join(folder, name);
      if (await runnable(path)) return path;
    }
  }
  return undefined;
}

/** Which program to run: the spec's, then `SVC_GH_BIN`, then `gh` on PATH. */
export async function ghCommand({ configured, ghBin, env }: GhInput): Promise<GhCommand> {
  const [command, source] = configured
    ? [configured, "config.command"]
    : ghBin
    ? [ghBin, "SVC_GH_BIN"]
    : ["gh", "default"];
  const found = await find(command, env);
  return { command, source, ...(found && { found }) };
}

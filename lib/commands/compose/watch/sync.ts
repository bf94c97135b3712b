/** Carries changed files into the containers of a service, and takes away those that are gone. */
import { SvcError } from "../../../base/errors.ts";
import type { Client } from "../../../client/client.ts";
import { writeArchive } from "../../../client/files.ts";
import { runHook } from "../../../compose/hooks.ts";
import { type Container, containersOf, isUp, type ServiceState } from "../../../compose/state.ts";
import { type PackedRoot, packPaths } from "../../cp/pack.ts";
import type { Watched } from "./rules.ts";

/** Paths in one command, at most. */
const AT_ONCE = 500;

export interface Syncing {
  client: Client;
  state: ServiceState;
  warn: (text: string) => void;
  signal: AbortSignal;
}

export const runningOf = (state: ServiceState): Container[] =>
  containersOf(state).filter(({ instance }) => isUp(instance));

/** Without those below another one. */
function outermost(paths: readonly string[]): string[] {
  const kept: string[] = [];
  for (const path of [...paths].sort()) {
    const above = kept.at(-1);
    if (above === undefined || !path.startsWith(`${above}/`)) kept.push(path);
  }
  return kept;
}

async function sort(watched: Watched, paths: readonly string[]) {
  const there: PackedRoot[] = [];
  const gone: string[] = [];
  for (const path of paths) {
    const target = watched.targetOf(path);
    const info = await Deno.lstat(path).catch(() => undefined);
    const name = target.replace(/^\/+/, "");
    if (info) there.push({ path, ...(name && { name }) });
    // A folder that is gone as a whole may be on its way to another name: what it held stays there.
    else if (watched.isFile || path !== watched.root) gone.push(target);
  }
  return { there, gone };
}

/** Makes the changed paths of the rule in the containers what they are here. Throws what calls throw. */
export async function syncPaths(
  watched: Watched,
  paths: readonly string[],
  { client, state, warn, signal }: Syncing,
): Promise<void> {
  const { there, gone } = await sort(watched, outermost(paths));
  for (const container of runningOf(state)) {
    const { instance } = container;
    const to = { name: state.status.name, instance: instance.id, path: "/" };
    // What is gone goes first: a file may have become a folder.
    for (let at = 0; at < gone.length; at += AT_ONCE) {
      await runHook(
        client,
        container,
        { command: ["rm", "-rf", "--", ...gone.slice(at, at + AT_ONCE)], user: "0" },
        { what: "rm", signal },
      );
    }
    if (there.length === 0) continue;
    const tar = packPaths(there, {
      signal,
      wanted: (path, info) => watched.wants(path, info.isDirectory),
      onSkip: (path, why) => warn(`${path} stays here: it is ${why}`),
    });
    await writeArchive(client, to, tar);
  }
}

/** Whether trying again later may help: the server was away, or a file changed while it was read. */
export const passes = (error: unknown): boolean =>
  error instanceof SvcError &&
  ["server_unreachable", "upstream_failed", "unavailable", "conflict", "timeout"].includes(
    error.code,
  );

/**
 * The role mount: folders and files of a session's caller, mounted by a process of the caretaker's own in a folder that
 * the workload shares (lib/deploy/mounts has that process, which a server runs too). The 9P stream goes through the
 * server to the caller, and outlives its connections.
 */
import { type CallerMount, checkCallerMounts } from "../../api/caller_mounts.ts";
import { SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";
import { SessionMounts } from "../../deploy/mounts/session_mounts.ts";
import type { BlockOptions } from "../../wire/blocks/protocol.ts";
import type { Fields } from "../../wire/attached/session.ts";
import type { Kind } from "../../wire/attached/kinds.ts";
import { invalid, requireMembers, requireText } from "../config.ts";
import type { RoleParts, Settings, StartedRole } from "../role.ts";

/** Milliseconds between two looks whether the server is there again. */
const LOOK_MS = 100;

/** What the server writes into the caretaker's document. */
export interface MountSettings {
  /** As the session's request has them: their order names the caller's exports. */
  mounts: readonly CallerMount[];
  /** By target: those whose blocks are kept here. */
  blocks: Readonly<Record<string, BlockOptions>>;
  /** Absolute, in the caretaker. */
  folder: string;
  /** Milliseconds that calls wait for a lost connection. */
  graceMs: number;
}

function read(settings: Settings): MountSettings {
  requireMembers(settings, "mount", ["mounts", "blocks", "folder", "graceMs"]);
  const { graceMs, blocks } = settings;
  if (!Number.isSafeInteger(graceMs)) throw invalid("roles.mount.graceMs", "expected a number");
  const folder = requireText(settings.folder, "roles.mount.folder");
  return {
    mounts: checkCallerMounts(settings.mounts),
    // Written by the server, of this very version or one with the same options.
    blocks: Object(blocks) as MountSettings["blocks"],
    ...{ folder, graceMs: graceMs as number },
  };
}

export function start(settings: Settings, parts: RoleParts): Promise<StartedRole> {
  const { log, signal: ended } = parts;
  /** Waits for a server that is away: the grace is the stream's to end. */
  const open = async (kind: Kind, fields?: Fields, { signal = ended } = {}) => {
    for (;;) {
      try {
        return parts.open(kind, fields);
      } catch (error) {
        if (!(error instanceof SvcError) || error.code !== "unavailable") throw error;
        await sleep(LOOK_MS, signal);
      }
    }
  };
  const fail = ({ message: lost }: Error) => {
    open("mount", { lost }).catch((error) => log.warn("the server was not told", { error }));
  };
  const { blocks, ...wanted } = read(settings);
  const how = ({ target }: CallerMount) => ({ async: blocks[target] });
  const mounts = new SessionMounts({ ...wanted, how, caller: { open, fail, ended }, log });
  return Promise.resolve({
    attached: () => mounts.start(),
    [Symbol.asyncDispose]: () => mounts.end(),
  });
}

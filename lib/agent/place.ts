/** Where the agent's socket, lock and records lie, and which build asks. */
import { buildInfo } from "../base/build_info.ts";
import { SvcError } from "../base/errors.ts";
import { join } from "../base/path.ts";
import { runtimeFolder } from "../base/runtime_folder.ts";
import type { Build } from "./protocol.ts";

export interface AgentPlace {
  /** For its user alone. */
  folder: string;
  socket: string;
  /** Held by the running agent. */
  lock: string;
  log: string;
  /** Folder of the records; undefined where they could outlive the login session on a disk. */
  records?: string;
}

/** Longest path of a Unix socket, in bytes. */
const MAX_SOCKET_PATH = 107;

/** Throws `unsupported` where there are no Unix sockets, `config_invalid` for a folder with too long a name. */
export async function agentPlace(
  env: Readonly<Record<string, string | undefined>>,
): Promise<AgentPlace> {
  if (Deno.build.os === "windows") {
    throw new SvcError("unsupported", "Cannot use the agent: it is for Linux and macOS", {
      help: "leave the command open instead: `svc deploy --session`",
    });
  }
  const { path: folder, passing } = await runtimeFolder(env);
  const socket = join(folder, "agent.sock");
  if (new TextEncoder().encode(socket).length > MAX_SOCKET_PATH) {
    throw new SvcError(
      "config_invalid",
      `Cannot use ${socket}: its path is too long for a socket`,
      {
        help: "set XDG_RUNTIME_DIR to a folder with a shorter name",
      },
    );
  }
  return {
    ...{ folder, socket, lock: join(folder, "agent.lock"), log: join(folder, "agent.log") },
    ...(passing && { records: join(folder, "held") }),
  };
}

/** Of this process. Called early: the file may be replaced later. */
export async function ownBuild(): Promise<Build> {
  const { version, executable } = buildInfo();
  const info = executable === undefined
    ? undefined
    : await Deno.stat(executable).catch(() => undefined);
  return { version, built: info?.mtime?.getTime() ?? 0 };
}

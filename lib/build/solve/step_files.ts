/** Files that a step sees and no layer holds: secrets, agents' sockets, /etc/hosts. */
import { SvcError } from "../../base/errors.ts";
import { chmod, lchown, lstat } from "../../sys/files.ts";
import { mount, mountOverlay, MS, unmount } from "../../sys/mount.ts";
import type { AgentSource, SecretSource } from "../inputs.ts";
import type { RunMount, RunVertex } from "../plan/graph.ts";
import { HOST_GATEWAY } from "../plan/hosts.ts";
import { AgentSocket } from "./agent_socket.ts";
import type { Workspace } from "./workspace.ts";

/** Largest secret, in bytes. */
const MAX_SECRET = 1 << 20;

/** Longest path of the folder of a unix socket. */
const MAX_SOCKET_FOLDER = 90;

export type SecretMount = Extract<RunMount, { type: "secret" }>;
export type SshMount = Extract<RunMount, { type: "ssh" }>;

/** The secret's bytes; undefined where it is missing and not required. */
export async function readSecret(
  wanted: SecretMount,
  source: SecretSource | undefined,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  const value = await source?.get(wanted.id, signal);
  if (value && value.length > MAX_SECRET) {
    throw new SvcError("build_failed", `secret ${wanted.id} has ${value.length} bytes`, {
      help: `a secret has at most ${MAX_SECRET} bytes`,
    });
  }
  if (value || !wanted.required) return value;
  throw new SvcError("build_failed", `secret ${wanted.id} is required and was not given`, {
    help: `give it with --secret id=${wanted.id},src=FILE or id=${wanted.id},env=NAME`,
  });
}

/** A folder in memory; where no tmpfs can be mounted, a folder on disk that only its owner can read. */
export async function secretFolder(
  workspace: Workspace,
): Promise<{ path: string } & AsyncDisposable> {
  const folder = await workspace.temporary();
  let mounted = false;
  try {
    mount("tmpfs", folder.path, "tmpfs", MS.NOSUID | MS.NODEV | MS.NOEXEC, "mode=0700,size=64m");
    mounted = true;
  } catch {
    // This process may not mount. The folder is removed with the step.
  }
  return {
    path: folder.path,
    [Symbol.asyncDispose]: async () => {
      if (mounted) unmount(folder.path, { detach: true });
      await folder[Symbol.asyncDispose]();
    },
  };
}

/**
 * A folder that shows `lower`, and whose writes are thrown away. Undefined where the host refuses such a
 * mount; the caller then copies.
 */
export async function scratchOver(
  workspace: Workspace,
  lower: string,
): Promise<{ path: string } & AsyncDisposable | undefined> {
  const folder = await workspace.temporary();
  const [path, upper, work] = ["merged", "upper", "work"].map((name) => `${folder.path}/${name}`);
  for (const each of [path, upper, work]) await Deno.mkdir(each);
  const { uid, gid, mode } = lstat(lower);
  lchown(upper, uid, gid);
  chmod(upper, mode & 0o7777);
  try {
    mountOverlay(path, { lower: [lower], upper, work });
  } catch {
    await folder[Symbol.asyncDispose]();
    return undefined;
  }
  return {
    path,
    [Symbol.asyncDispose]: async () => {
      unmount(path, { detach: true });
      await folder[Symbol.asyncDispose]();
    },
  };
}

/** Writes a small file with the mode and owner that a mount asks for. */
export async function writeOwned(
  path: string,
  data: Uint8Array | string,
  { mode, uid, gid }: { mode: number; uid: number; gid: number },
): Promise<void> {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  await Deno.writeFile(path, bytes, { mode: 0o600, createNew: true });
  lchown(path, uid, gid);
  chmod(path, mode);
}

/** A socket connected to the caller's agent; undefined where there is no agent and none is required. */
export async function agentSocket(
  wanted: SshMount,
  source: AgentSource | undefined,
  workspace: Workspace,
  signal: AbortSignal,
): Promise<{ path: string } & AsyncDisposable | undefined> {
  if (!source?.has(wanted.id)) {
    if (!wanted.required) return undefined;
    throw new SvcError("build_failed", `SSH agent ${wanted.id} is required and was not given`, {
      help: `give it with --ssh ${wanted.id}`,
    });
  }
  let folder = await workspace.temporary();
  if (folder.path.length > MAX_SOCKET_FOLDER) {
    await folder[Symbol.asyncDispose]();
    const path = await Deno.makeTempDir();
    folder = { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
  }
  const socket = AgentSocket.listen(`${folder.path}/agent`, source, wanted.id, signal);
  lchown(socket.path, wanted.uid, wanted.gid);
  chmod(socket.path, wanted.mode);
  return {
    path: socket.path,
    [Symbol.asyncDispose]: async () => {
      await socket[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

const OWN_NAMES = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/**
 * The text of a step's /etc/hosts: the step's own names, or the host's in the host's network, and the names
 * that the build adds.
 */
export function hostsText(
  hosts: RunVertex["hosts"],
  { gateway, host = OWN_NAMES }: { gateway: string; host?: string },
): string {
  const end = host === "" || host.endsWith("\n") ? "" : "\n";
  const lines = hosts.map(({ name, address }) =>
    `${address === HOST_GATEWAY ? gateway : address}\t${name}\n`
  );
  return host + end + lines.join("");
}

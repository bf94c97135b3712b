/**
 * `--rootless`: a server that an ordinary user started enters a user and a mount namespace of its own, where it
 * is root and may mount (SPEC "General and listener"; user_namespaces(7)). The process stays the same: its
 * parent sees the same id, signals, standard streams and exit code. newuidmap(1) and newgidmap(1) map the ids.
 * For them a helper process holds the namespaces open until this process has entered them with nsenter(1).
 */
import { SvcError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { ownCommand } from "../base/own_command.ts";
import { run } from "../base/process.ts";
import { execve } from "../sys/exec.ts";
import { close, openInherited } from "../sys/fd.ts";
import { idMapping, type IdRange, inUserNamespace, subordinateIds } from "../sys/userns.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** Set for the process in the namespace: who it was outside, and which descriptors to close. */
const INSIDE = "_SVC_ROOTLESS";

/** Who runs this server, as the host sees it. */
export interface Identity {
  uid: number;
  /** True inside a namespace that {@linkcode enterRootless} made. */
  inside: boolean;
}

/** Reads the mark that {@linkcode enterRootless} left, and closes the descriptors that are not needed any more. */
export function identity(env: Environment): Identity {
  const mark = /^(\d+):(\d+),(\d+)$/.exec(env[INSIDE] ?? "");
  if (!mark || !inUserNamespace()) return { uid: Deno.uid() ?? 0, inside: false };
  for (const fd of [mark[2], mark[3]]) close(Number(fd));
  return { uid: Number(mark[1]), inside: true };
}

export interface RootlessOptions {
  env: Environment;
  /** This program's arguments. */
  args: readonly string[];
  log: Logger;
  /** Work that this user has to do outside the namespace. Called last. */
  beforeEntering: () => Promise<void>;
}

/**
 * Enters the namespaces: this program starts again inside, so on success the call does not return. On failure
 * it returns the reason, and the server goes on outside.
 */
export async function enterRootless(options: RootlessOptions): Promise<string> {
  try {
    return await enter(options);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    options.log.debug("user namespace", { error });
    return error.help ? `${error.message}; ${error.help}` : error.message;
  }
}

const refuse = (why: string, help: string, cause?: unknown) =>
  new SvcError("prerequisite_missing", `Cannot make a user namespace: ${why}`, { help, cause });

async function enter({ env, args, beforeEntering }: RootlessOptions): Promise<never> {
  if (Deno.build.os !== "linux") {
    throw refuse(`this machine runs ${Deno.build.os}`, "run the server on Linux");
  }
  const uid = Deno.uid()!, gid = Deno.gid()!;
  const name = await userName(uid);
  const uids = await ranges("/etc/subuid", { name, uid });
  const gids = await ranges("/etc/subgid", { name, uid });
  const holder = await holdNamespaces();
  let fds: number[];
  try {
    await map("newuidmap", holder.pid, idMapping(uid, uids));
    await map("newgidmap", holder.pid, idMapping(gid, gids));
    await tryMount(holder.pid);
    fds = ["user", "mnt"].map((kind) => openInherited(`/proc/${holder.pid}/ns/${kind}`));
  } finally {
    // From here on, open descriptors keep the namespaces alive.
    await holder.end();
  }
  await beforeEntering();
  execve(await locate("nsenter", env), [
    "nsenter",
    `--user=/proc/self/fd/${fds[0]}`,
    `--mount=/proc/self/fd/${fds[1]}`,
    // Keeps the supplementary groups, which may open the sockets of engines. The user's own id is already
    // mapped to root.
    "--preserve-credentials",
    "--",
    ...await ownCommand(args),
  ], { ...env, [INSIDE]: `${uid}:${fds.join(",")}` });
}

/** The user's name in /etc/subuid; a user without a name can be listed there by number. */
async function userName(uid: number): Promise<string | undefined> {
  const { code, stdout } = await run("id", ["-un", String(uid)]);
  return code === 0 ? stdout.trim() : undefined;
}

async function ranges(file: string, user: { name?: string; uid: number }): Promise<IdRange[]> {
  let text = "";
  try {
    text = await Deno.readTextFile(file);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const found = subordinateIds(text, user);
  const who = user.name ?? String(user.uid);
  if (found.length === 0) {
    throw refuse(
      `${file} gives ${who} no range of ids`,
      `add a line such as ${who}:100000:65536 to it (usermod --add-${
        file.slice(5)
      }s 100000-165535)`,
    );
  }
  return found;
}

interface Holder {
  pid: number;
  end(): Promise<void>;
}

/** A process that only holds new namespaces, whose ids are not mapped yet. */
async function holdNamespaces(): Promise<Holder> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command("unshare", {
      args: ["--user", "--mount", "--", "cat"],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw refuse("unshare is not installed", "install the package util-linux", error);
  }
  const words = new Response(child.stderr).text();
  const input = child.stdin.getWriter();
  const output = child.stdout.getReader();
  const end = async () => {
    await Promise.allSettled([input.close(), output.cancel()]);
    await child.status;
    await words;
  };
  // The helper runs cat: when the line comes back, its namespaces exist.
  await input.write(new TextEncoder().encode("\n")).catch(() => {/* its status tells */});
  const { done } = await output.read();
  if (!done) return { pid: child.pid, end };
  await end();
  throw refuse(lastLine(await words) || "unshare failed", await forbidden());
}

const lastLine = (text: string) => text.trim().split("\n").pop() ?? "";

/** The kernel setting that forbids the namespaces. */
async function forbidden(): Promise<string> {
  const setting = async (path: string) =>
    (await Deno.readTextFile(`/proc/sys/${path}`).catch(() => "")).trim();
  if (await setting("user/max_user_namespaces") === "0") {
    return "the host allows none: sysctl user.max_user_namespaces is 0";
  }
  if (await setting("kernel/unprivileged_userns_clone") === "0") {
    return "the host allows them to root only: set sysctl kernel.unprivileged_userns_clone=1";
  }
  if (await setting("kernel/apparmor_restrict_unprivileged_userns") === "1") {
    return "AppArmor restricts them on this host: give svc a profile that allows userns, or set " +
      "sysctl kernel.apparmor_restrict_unprivileged_userns=0";
  }
  return "the host's kernel, or the container this server runs in, forbids them";
}

async function map(command: string, pid: number, mapping: string[]): Promise<void> {
  let result;
  try {
    result = await run(command, [String(pid), ...mapping]);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "prerequisite_missing") throw error;
    throw refuse(
      `${command} is not on PATH`,
      "install the package uidmap (apt-get install uidmap) or shadow-utils",
      error,
    );
  }
  if (result.code === 0) return;
  throw refuse(
    lastLine(result.stderr) || `${command} exited with ${result.code}`,
    `${command} must be setuid root (or hold the file capability for it), and no mount or ` +
      "no_new_privs may take that away",
  );
}

/** Tries a mount in a nested namespace: some hosts allow namespaces in which nothing is permitted. */
async function tryMount(pid: number): Promise<void> {
  let result;
  try {
    result = await run("nsenter", [
      "--user",
      "--mount",
      "--target",
      String(pid),
      "--preserve-credentials",
      "--",
      "unshare",
      "--mount",
      "true",
    ]);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "prerequisite_missing") throw error;
    throw refuse("nsenter is not installed", "install the package util-linux", error);
  }
  if (result.code === 0) return;
  throw refuse(`nothing can be mounted in it: ${lastLine(result.stderr)}`, await forbidden());
}

async function locate(name: string, env: Environment): Promise<string> {
  for (const folder of (env.PATH || "/usr/bin:/bin").split(":")) {
    const path = `${folder || "."}/${name}`;
    const info = await Deno.stat(path).catch(() => undefined);
    if (info?.isFile && (info.mode! & 0o111) !== 0) return path;
  }
  throw refuse(`${name} is not on PATH`, "install the package util-linux");
}

/**
 * conmon, one small process per container: it holds the container's output, writes the output with times to the
 * log, and writes the exit code to a file. It outlives the server.
 */
import { constants } from "node:fs";
// Our own: the control FIFO, which is opened without waiting.
import { open } from "node:fs/promises";
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { exists, removeTree } from "../../../lib/base/fs.ts";
import { startProgram } from "../../../lib/base/process.ts";
import type { TerminalSize } from "../../../lib/base/terminal.ts";
import { children, isAncestor, killTree } from "../../../lib/sys/process_tree.ts";
import { startLimit } from "../../../lib/deploy/host/start_limit.ts";
import { openInput, withInput } from "../../../lib/deploy/host/input.ts";
import type { Tools } from "./preflight.ts";

const SYNC_FD = 3;
/**
 * Turns the output into the descriptor that is told when the container is made. A program with more than the three
 * usual ones is started by a copy of this whole process, for which all else waits.
 */
const WITH_SYNC = `exec "$@" ${SYNC_FD}>&1 >/dev/null 2>"$0"`;
/** Milliseconds that a deleted container's monitor may go on, and between two looks at it. */
const END_PATIENCE = 10_000;
const END_LOOK = 10;

/** The file of the monitor's pid in the bundle; there is none after the monitor's end was waited for. */
export const MONITOR_PID = "conmon.pid";

export interface MonitorOptions {
  key: string;
  bundle: string;
  log: string;
  /** Folder of the exit files. */
  exits: string;
  systemdCgroup: boolean;
  /** Milliseconds that the runtime may take. */
  startMs: number;
  tty?: boolean;
  stdinOpen?: boolean;
  /** Program and arguments that the monitor runs at the container's end, and waits for. */
  atEnd?: readonly string[];
}

/** What a command at the container's end has of this process's environment beside the path. */
const KEPT = ["HOME", "XDG_CACHE_HOME", "DENO_DIR"];

const kept = () =>
  Object.fromEntries(KEPT.flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value]];
  }));

interface SyncMessage {
  /** The container's pid, or negative on failure. */
  data?: number;
  pid?: number;
  message?: string;
}

/** The message of a runtime's JSON or text log line. */
function words(message: string | undefined): string {
  const text = (message ?? "").trim();
  return /level=error msg="(.*)"$/s.exec(text)?.[1].replaceAll('\\"', '"') ?? text;
}

/**
 * Starts the monitor, which lets the runtime create the container. Returns the container's pid; the container
 * waits for `start`. Throws `deploy_failed` with the runtime's message.
 */
export async function createContainer(
  { runtime, conmon }: Tools,
  options: MonitorOptions,
): Promise<number> {
  const { key, bundle, log, exits, systemdCgroup, startMs, tty, stdinOpen, atEnd } = options;
  // On pipes the input is ours: the monitor would end it with the last writer, or never.
  const ownInput = stdinOpen && !tty;
  if (ownInput) await openInput(bundle);
  const program = [
    ...[runtime.binary, "--root", runtime.root],
    ...(systemdCgroup ? ["--systemd-cgroup"] : []),
  ];
  const [command, ...first] = ownInput ? withInput(bundle, program) : program;
  const args = [
    ...["--api-version", "1", "--cid", key, "--cuuid", key, "--name", key],
    ...["--runtime", command, ...first.flatMap((arg) => ["--runtime-arg", arg])],
    ...["--bundle", bundle, "--container-pidfile", join(bundle, "pid")],
    ...["--conmon-pidfile", join(bundle, MONITOR_PID)],
    ...["--log-path", `k8s-file:${log}`, "--exit-dir", exits],
    ...["--full-attach", "--log-level", "error"],
    ...(tty ? ["--terminal"] : []),
    ...(stdinOpen && tty ? ["--stdin", "--leave-stdin-open"] : []),
    ...(atEnd ?? []).flatMap((
      arg,
      at,
    ) => [at === 0 ? "--exit-command" : "--exit-command-arg", arg]),
  ];
  const errorLog = join(bundle, "conmon.log");
  // Our own: a file of the bundle.
  await Deno.writeTextFile(errorLog, "", { mode: 0o600 });
  // A session of its own: signals to the server's process group do not reach it.
  const child = startProgram("setsid", {
    args: ["sh", "-c", WITH_SYNC, errorLog, conmon, ...args],
    cwd: bundle,
    clearEnv: true,
    env: {
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      _OCI_SYNCPIPE: String(SYNC_FD),
      ...(atEnd && kept()),
    },
    ...{ stdin: "null", stdout: "piped", stderr: "null" },
  });
  using limit = startLimit(`container ${key}`, startMs);
  const late = new Promise<never>((_, reject) =>
    limit.signal.addEventListener("abort", () => reject(limit.signal.reason))
  );
  const answer = await Promise.race([firstLine(child.stdout), late]).catch((error) => {
    killTree(child.pid);
    throw error;
  });
  child.unref();
  const message: SyncMessage = answer ? JSON.parse(answer) : {};
  const pid = message.data ?? message.pid ?? -1;
  if (pid > 0) return pid;
  // Our own: what the monitor logs.
  const said = words(message.message) || words(await Deno.readTextFile(errorLog));
  throw new SvcError("deploy_failed", `Cannot create container ${key}: ${said}`, {
    help: "see the runtime's message",
  });
}

/** The first line of a pipe that its writer may keep open; empty where it ends without one. */
async function firstLine(pipe: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const part of pipe.pipeThrough(new TextDecoderStream())) {
    text += part;
    if (text.includes("\n")) return text.split("\n", 1)[0];
  }
  return text;
}

/** Lets the monitor open a new log file after the old one was renamed. A dead monitor is fine. */
export const reopenLog = (bundle: string): Promise<void> => tellMonitor(bundle, "2 0 0");

/** Changes the size of the container's terminal. A dead monitor is fine. */
export const resizeTerminal = (bundle: string, { rows, columns }: TerminalSize): Promise<void> =>
  tellMonitor(bundle, `1 ${rows} ${columns}`);

/** Writes a line to the monitor's control FIFO. */
async function tellMonitor(bundle: string, line: string): Promise<void> {
  try {
    // Not blocking: without a reader the FIFO refuses (ENXIO) instead of waiting for one.
    const file = await open(join(bundle, "ctl"), constants.O_WRONLY | constants.O_NONBLOCK);
    try {
      await file.write(`${line}\n`);
    } finally {
      await file.close();
    }
  } catch (error) {
    const code = (error as { code?: string }).code;
    if (code !== "ENXIO" && code !== "ENOENT") throw error;
  }
}

/** True where the process lives and its command line names the container. */
const isAbout = async (pid: number, key: string): Promise<boolean> =>
  // Our own: the kernel's file.
  (await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => "")).split("\0").includes(key);

/**
 * Waits until the monitor of a deleted container has ended, or does no more than run its command at the
 * container's end: that is killed then, unless this process is a part of it. The monitor writes the exit file at its own pace: a late
 * file would stay for ever, or count as the end of the container's next run.
 */
export async function monitorEnded(bundle: string, key: string, exit: string): Promise<void> {
  const file = join(bundle, MONITOR_PID);
  // Our own: the monitor's file.
  const text = await Deno.readTextFile(file).catch(() => undefined);
  if (text === undefined) return; // it never came so far
  const pid = Number(text);
  for (const until = performance.now() + END_PATIENCE; performance.now() < until;) {
    // Another process may have the monitor's pid by now.
    if (!await isAbout(pid, key)) break;
    if (
      await exists(exit) &&
      (await Promise.all(children(pid).map((one) => isAbout(one, key)))).includes(true)
    ) {
      if (!isAncestor(pid)) killTree(pid);
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, END_LOOK));
  }
  await removeTree(file);
}

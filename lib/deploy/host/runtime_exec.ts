/** `exec` of the OCI runtime, with pipes or on a terminal. */
import { join } from "node:path";
import { asSvcError } from "../../base/errors.ts";
import { exists } from "../../base/fs.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import type { ExecSession } from "../backend.ts";
import type { ExecOptions } from "./engine.ts";
import { encodeDocument } from "../../runtime/document.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { ProcessSpec } from "../../runtime/spec.ts";
import { killTree } from "../../sys/process_tree.ts";
import { runOnTerminal } from "../../sys/pty.ts";
import { notBegun } from "./start_limit.ts";

/** The runtime's own process. */
interface Started extends Pick<ExecSession, "stdin" | "stdout" | "stderr" | "resize"> {
  pid: number;
  ended: Promise<number>;
}

function onPipes(command: string, args: string[]): Started {
  const options = { args, stdin: "piped", stdout: "piped", stderr: "piped" } as const;
  const { pid, stdin, stdout, stderr, status } = new Deno.Command(command, options).spawn();
  return { pid, stdin, stdout, stderr, ended: status.then(({ code }) => code) };
}

/**
 * The runtime relays between this terminal and the one that it makes inside. Our terminal is raw from the
 * start, so that keys typed before the runtime is ready reach the command unchanged. Our terminal adds carriage
 * returns to line feeds: runc switches that off inside, perhaps after the command has begun. A second carriage
 * return is harmless, a missing one is not.
 */
async function onTerminal(
  command: string,
  args: string[],
  size: TerminalSize,
): Promise<Started> {
  const { pid, input, output, exit, resize } = await runOnTerminal(command, args, {
    size,
    rawKeys: true,
  });
  return {
    pid,
    stdin: input,
    stdout: output,
    stderr: ReadableStream.from([]),
    ended: exit,
    resize,
  };
}

export interface ExecPlace {
  runtime: Runtime;
  key: string;
  bundle: string;
  /** Milliseconds that the command has to begin. */
  startMs: number;
}

/** See {@linkcode ContainerEngine.exec}. */
export async function execIn(
  { runtime, key, bundle, startMs }: ExecPlace,
  process: ProcessSpec,
  { terminal, what, signal }: ExecOptions,
): Promise<ExecSession> {
  const id = crypto.randomUUID().slice(0, 8);
  const document = join(bundle, `exec-${id}.json`);
  const pidFile = join(bundle, `exec-${id}.pid`);
  try {
    await Deno.writeTextFile(document, encodeDocument(process), { mode: 0o600 });
  } catch (error) {
    await Deno.remove(document).catch(() => {/* not made */});
    throw asSvcError(error, `Cannot run ${what}`);
  }
  const [command, args] = runtime.command(
    ...["exec", "--process", document, "--pid-file", pidFile, key],
  );
  const remove = () =>
    Promise.all([document, pidFile].map((path) => Deno.remove(path).catch(() => {/* not made */})));
  let started: Started;
  try {
    started = terminal ? await onTerminal(command, args, terminal) : onPipes(command, args);
  } catch (error) {
    await remove();
    throw error;
  }
  const { pid: runtimePid, ended, ...streams } = started;
  // The runtime first reads the container's passwd and group, which may block for ever.
  let late = false;
  const unstarted = setTimeout(async () => {
    if (await exists(pidFile)) return;
    late = true;
    killTree(runtimePid);
  }, startMs);
  const kill = async (name: string) => {
    // The command has not begun: the runtime itself is killed.
    if (name === "SIGKILL" && !await exists(pidFile)) return killTree(runtimePid);
    // The runtime passes on all signals but SIGKILL: so the command's own process is signalled.
    const pid = await waitForPid(pidFile, ended);
    if (pid === undefined) return;
    try {
      Deno.kill(pid, name as Deno.Signal);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  };
  const onAbort = () => {
    kill("SIGKILL").catch(() => {/* it ended meanwhile */});
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  const exit = ended.then(async (code) => {
    clearTimeout(unstarted);
    signal?.removeEventListener("abort", onAbort);
    await remove();
    if (!late) return code;
    throw notBegun(what, startMs);
  });
  exit.catch(() => {/* told to who waits for it */});
  return {
    ...streams,
    exit,
    kill: (name) => kill(name.startsWith("SIG") ? name : `SIG${name}`),
  };
}

async function waitForPid(path: string, ended: Promise<unknown>): Promise<number | undefined> {
  let over = false;
  ended.then(() => {
    over = true;
  });
  while (!over) {
    // Our own: the runtime's file.
    const text = await Deno.readTextFile(path).catch(() => "");
    if (/^\d+$/.test(text.trim())) return Number(text);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return undefined;
}

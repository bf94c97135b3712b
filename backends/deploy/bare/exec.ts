/** Commands inside a running instance: `exec` of the runtime with pipes or a terminal, and health probes. */
import { posix } from "node:path";
import { join } from "node:path";
import { SvcError } from "../../../lib/base/errors.ts";
import { exists } from "../../../lib/base/fs.ts";
import type { TerminalSize } from "../../../lib/base/terminal.ts";
import type { ExecRequest, ExecSession } from "../../../lib/deploy/backend.ts";
import { S_IFMT, S_IFREG } from "../../../lib/sys/files.ts";
import { killTree } from "../../../lib/sys/process_tree.ts";
import { runOnTerminal } from "../../../lib/sys/pty.ts";
import { modeInRunning } from "../../../lib/sys/rooted_elsewhere.ts";
import { decodeDocument, encodeDocument } from "../../../lib/runtime/document.ts";
import { type ProcessSpec, processUser, type RuntimeSpec } from "../../../lib/runtime/spec.ts";
import { resolveUser } from "../../../lib/runtime/user.ts";
import type { ProbeResult } from "../../../lib/deploy/health.ts";
import { notBegun } from "./begin.ts";
import type { Host } from "./host.ts";
import type { Instance } from "./instance.ts";

const NOT_FOUND = 127;
const NOT_EXECUTABLE = 126;

const sizeOf = ({ size }: ExecRequest): TerminalSize => size ?? { columns: 80, rows: 24 };

/** The container's process with the request on top. */
async function processOf(instance: Instance, request: ExecRequest): Promise<ProcessSpec> {
  // Our own: the bundle's document.
  const text = await Deno.readTextFile(join(instance.bundle, "config.json"));
  const { process } = decodeDocument<RuntimeSpec>(text);
  const env = new Map(process.env.map((entry) => [entry.split("=", 1)[0], entry]));
  if (request.tty && !env.has("TERM")) env.set("TERM", "TERM=xterm");
  for (const [name, value] of Object.entries(request.env ?? {})) {
    env.set(name, `${name}=${value}`);
  }
  const result: ProcessSpec = {
    ...process,
    terminal: request.tty ?? false,
    ...(request.tty &&
      { consoleSize: { height: sizeOf(request).rows, width: sizeOf(request).columns } }),
    args: request.command,
    cwd: request.workingDir ?? process.cwd,
    env: [...env.values()],
  };
  if (request.user !== undefined) {
    const user = await resolveUser(rootOf(instance), request.user, instance.spec.groupAdd);
    const held = user.uid === 0 ? process.capabilities.bounding : [];
    result.user = processUser(user);
    result.capabilities = { ...process.capabilities, effective: held, permitted: held };
    // One that the image, the spec or the caller gave stays.
    const { plan } = instance.record;
    const given = plan.env.some((entry) => entry.startsWith("HOME=")) ||
      request.env?.HOME !== undefined;
    if (!given) {
      result.env = [...env.set("HOME", `HOME=${user.home}`).values()];
    }
  }
  return result;
}

const rootOf = (instance: Instance) => `/proc/${instance.record.process?.pid}/root`;

/** Why a shell would not run the command; undefined where it would. */
async function obstacle(
  instance: Instance,
  process: ProcessSpec,
): Promise<{ code: number; message: string } | undefined> {
  const [name] = process.args;
  const path = process.env.findLast((entry) => entry.startsWith("PATH="))?.slice(5) ?? "";
  const candidates = name.includes("/")
    ? [posix.resolve(process.cwd, name)]
    : path.split(":").map((folder) => posix.resolve(process.cwd, folder || ".", name));
  let found = false;
  for (const candidate of candidates) {
    const mode = await modeInRunning(rootOf(instance), candidate);
    if (mode === undefined) continue;
    found = true;
    if ((mode & S_IFMT) === S_IFREG && mode & 0o111) return undefined;
  }
  return found
    ? { code: NOT_EXECUTABLE, message: `Cannot run ${name}: permission denied` }
    : { code: NOT_FOUND, message: `Cannot run ${name}: no such command in the container` };
}

/** A session whose command never ran. */
function refused({ code, message }: { code: number; message: string }): ExecSession {
  const text = new TextEncoder().encode(`${message}\n`);
  return {
    refused: true,
    stdin: new WritableStream(),
    stdout: ReadableStream.from([]),
    stderr: ReadableStream.from([text]),
    exit: Promise.resolve(code),
    kill: () => Promise.resolve(),
  };
}

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
 * The runtime relays between this terminal and the one that it makes inside. Keys are raw on ours from the
 * start: what is typed before the runtime is ready must reach the command as it is. Line feeds get their
 * carriage return on ours, since runc takes that off the one inside, when the command may have begun: a second
 * one is harmless, none is not.
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

/** Throws `conflict` where the instance does not run. */
export async function execIn(
  host: Host,
  instance: Instance,
  request: ExecRequest,
  signal?: AbortSignal,
): Promise<ExecSession> {
  if (!instance.running || !instance.record.process) {
    throw new SvcError("conflict", `Cannot run a command in ${instance.id}: it is not running`, {
      help: "start the deployment first",
    });
  }
  if (request.command.length === 0) {
    throw new SvcError("argument_invalid", "Cannot run a command: none is given");
  }
  const process = await processOf(instance, request);
  const stands = await obstacle(instance, process);
  if (stands) return refused(stands);
  const { runtime } = await host.tools();
  const id = crypto.randomUUID().slice(0, 8);
  const document = join(instance.bundle, `exec-${id}.json`);
  const pidFile = join(instance.bundle, `exec-${id}.pid`);
  await Deno.writeTextFile(document, encodeDocument(process), { mode: 0o600 });
  const [command, args] = runtime.command(
    ...["exec", "--process", document, "--pid-file", pidFile, instance.record.key],
  );
  const remove = () =>
    Promise.all([document, pidFile].map((path) => Deno.remove(path).catch(() => {/* not made */})));
  let started: Started;
  try {
    started = request.tty
      ? await onTerminal(command, args, sizeOf(request))
      : onPipes(command, args);
  } catch (error) {
    await remove();
    throw error;
  }
  const { pid: runtimePid, ended, ...streams } = started;
  // The runtime reads the container's passwd and group first, which nobody may come to the end of.
  let late = false;
  const unstarted = setTimeout(async () => {
    if (await exists(pidFile)) return;
    late = true;
    killTree(runtimePid);
  }, host.config.startMs);
  const kill = async (name: string) => {
    // Nothing that waits before the command begins may go on.
    if (name === "SIGKILL" && !await exists(pidFile)) return killTree(runtimePid);
    // The runtime passes signals on, but cannot pass SIGKILL: the command itself is its child.
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
    throw notBegun(`${request.command[0]} in ${instance.id}`, host.config.startMs);
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

/** Bytes kept of what a probe prints: the last ones. */
const PROBE_OUTPUT = 4096;

/** Runs a health check's command to its end; the abort kills it. */
export async function runProbe(
  host: Host,
  instance: Instance,
  command: string[],
  signal: AbortSignal,
): Promise<ProbeResult> {
  const session = await execIn(host, instance, { command }, signal);
  let output = new Uint8Array();
  const keep = async (stream: ReadableStream<Uint8Array>) => {
    for await (const bytes of stream) {
      const last = [...output, ...bytes.subarray(-PROBE_OUTPUT)];
      output = new Uint8Array(last.slice(-PROBE_OUTPUT));
    }
  };
  const [code] = await Promise.all([
    session.exit,
    session.stdin.close().catch(() => {/* it does not read */}),
    keep(session.stdout),
    keep(session.stderr),
  ]);
  return { code, output: new TextDecoder().decode(output) };
}

/** Commands inside a running instance, and health probes. */
import { posix } from "node:path";
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import type { ExecRequest, ExecSession } from "../backend.ts";
import { S_IFMT, S_IFREG } from "../../sys/files.ts";
import { modeInRunning } from "../../sys/rooted_elsewhere.ts";
import { decodeDocument } from "../../runtime/document.ts";
import { type ProcessSpec, processUser, type RuntimeSpec } from "../../runtime/spec.ts";
import { resolveUser } from "../../runtime/user.ts";
import type { ProbeResult } from "../health.ts";
import { NOT_EXECUTABLE, NOT_FOUND, refusedExec } from "../refused_exec.ts";
import type { ContainerEngine, ProcessIdentity } from "./engine.ts";
import type { ContainerPlan } from "../container_config.ts";

/** Where a command is to run. */
export interface ExecTarget {
  id: string;
  key: string;
  bundle: string;
  groupAdd?: string[];
  plan: ContainerPlan;
  /** The instance's process 1; undefined: the instance does not run. */
  process?: ProcessIdentity;
  paused?: boolean;
}

const sizeOf = ({ size }: ExecRequest): TerminalSize => size ?? { columns: 80, rows: 24 };

/** The container's process, overridden by the request. */
async function processOf(target: ExecTarget, request: ExecRequest): Promise<ProcessSpec> {
  // Our own: the bundle's document.
  const text = await Deno.readTextFile(join(target.bundle, "config.json"));
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
    const user = await resolveUser(rootOf(target), request.user, target.groupAdd);
    const held = user.uid === 0 ? process.capabilities.bounding : [];
    result.user = processUser(user);
    result.capabilities = { ...process.capabilities, effective: held, permitted: held };
    // A HOME from the image, the spec or the caller wins.
    const given = target.plan.env.some((entry) => entry.startsWith("HOME=")) ||
      request.env?.HOME !== undefined;
    if (!given) {
      result.env = [...env.set("HOME", `HOME=${user.home}`).values()];
    }
  }
  return result;
}

const rootOf = ({ process }: ExecTarget) => `/proc/${process?.pid}/root`;

/** The exit code of a shell that could not run the command; undefined: it could. */
async function obstacle(
  target: ExecTarget,
  process: ProcessSpec,
): Promise<number | undefined> {
  const [name] = process.args;
  const path = process.env.findLast((entry) => entry.startsWith("PATH="))?.slice(5) ?? "";
  const candidates = name.includes("/")
    ? [posix.resolve(process.cwd, name)]
    : path.split(":").map((folder) => posix.resolve(process.cwd, folder || ".", name));
  let found = false;
  for (const candidate of candidates) {
    const mode = await modeInRunning(rootOf(target), candidate);
    if (mode === undefined) continue;
    found = true;
    if ((mode & S_IFMT) === S_IFREG && mode & 0o111) return undefined;
  }
  return found ? NOT_EXECUTABLE : NOT_FOUND;
}

/** Throws `conflict` where the instance does not run. */
export async function execIn(
  engine: Pick<ContainerEngine, "exec">,
  target: ExecTarget,
  request: ExecRequest,
  signal?: AbortSignal,
): Promise<ExecSession> {
  if (!target.process) {
    throw new SvcError("conflict", `Cannot run a command in ${target.id}: it is not running`, {
      help: "start the deployment first",
    });
  }
  if (target.paused) {
    throw new SvcError("conflict", `Cannot run a command in ${target.id}: it is paused`, {
      help: "unpause the deployment first",
    });
  }
  if (request.command.length === 0) {
    throw new SvcError("argument_invalid", "Cannot run a command: none is given");
  }
  const process = await processOf(target, request);
  const code = await obstacle(target, process);
  if (code !== undefined) return refusedExec(request.command[0], code);
  const terminal = request.tty ? sizeOf(request) : undefined;
  const what = `${request.command[0]} in ${target.id}`;
  return await engine.exec(target.key, process, { terminal, what, signal });
}

/** The last bytes of a probe's output that are kept. */
const PROBE_OUTPUT = 4096;

/** Runs a health check's command to its end; an abort kills it. */
export async function runProbe(
  engine: Pick<ContainerEngine, "exec">,
  target: ExecTarget,
  command: string[],
  signal: AbortSignal,
): Promise<ProbeResult> {
  const session = await execIn(engine, target, { command }, signal);
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

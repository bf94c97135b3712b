/** Running other programs: output collected with a bound, cancelled by signal. */
import { SvcError, tellsFullDisk } from "./errors.ts";

export interface RunOptions {
  env?: Record<string, string>;
  /** Start from an empty environment. */
  clearEnv?: boolean;
  cwd?: string;
  stdin?: Uint8Array | string;
  signal?: AbortSignal;
}

export interface RunResult {
  code: number;
  stdout: string;
  stderr: string;
}

/** Starts a program. Throws `prerequisite_missing` where it is not there; `missing` may say what for. */
export function startProgram(
  command: string,
  options: Deno.CommandOptions,
  missing: { what?: string; help?: string } = {},
): Deno.ChildProcess {
  try {
    return new Deno.Command(command, options).spawn();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    const { what = `Cannot run ${command}: it`, help } = missing;
    throw new SvcError("prerequisite_missing", `${what} is not on PATH`, { cause: error, help });
  }
}

/**
 * Runs a program to its end and collects what it printed. A non-zero exit code is not an error here;
 * a program that is not there throws `prerequisite_missing`, an aborted signal kills it and throws.
 */
export async function run(
  command: string,
  args: string[],
  options: RunOptions = {},
): Promise<RunResult> {
  options.signal?.throwIfAborted();
  const child = startProgram(command, {
    args,
    env: options.env,
    clearEnv: options.clearEnv,
    cwd: options.cwd,
    signal: options.signal,
    stdin: options.stdin === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  });
  if (options.stdin !== undefined) {
    const bytes = typeof options.stdin === "string"
      ? new TextEncoder().encode(options.stdin)
      : options.stdin;
    const writer = child.stdin.getWriter();
    // A program may end without reading its input; its exit code tells that story better than EPIPE.
    writer.write(bytes as Uint8Array<ArrayBuffer>).then(() => writer.close()).catch(() => {});
  }
  // Not by output(): each array it returns holds 64 KiB or more until a collection that does not know of them.
  const [stdout, stderr, { code }] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.status,
  ]);
  options.signal?.throwIfAborted();
  return { code, stdout, stderr };
}

/** Like {@linkcode run}, but a non-zero exit throws with the program's own last words. */
export async function runOk(
  attempted: string,
  command: string,
  args: string[],
  options: RunOptions = {},
): Promise<RunResult> {
  const result = await run(command, args, options);
  if (result.code !== 0) {
    const words = (result.stderr.trim() || result.stdout.trim()).split("\n").slice(-5).join("\n");
    const message = `${attempted}: ${command} exited with ${result.code}${words && `: ${words}`}`;
    if (tellsFullDisk(words)) throw new SvcError("storage_full", message);
    throw new SvcError("internal", message, {
      help: "see the message above; svc doctor checks the host",
    });
  }
  return result;
}

/**
 * Runs a program with its child processes: all are ended together, and none is awaited for ever. POSIX only.
 */
import { startProgram } from "./process.ts";

export interface GroupOptions {
  env?: Record<string, string>;
  signal?: AbortSignal;
  /** Longest time without any output, in milliseconds. */
  silenceMs: number;
  /** Longest time altogether, in milliseconds. */
  totalMs: number;
}

export interface GroupResult {
  code: number;
  stdout: string;
  /** What the program printed on standard error; of long output only the end. */
  stderr: string;
  /** Why the program was killed: it printed nothing, took too long, or printed too much. */
  ended?: "silent" | "slow" | "endless";
}

/** Most bytes of stdout. */
const MAX_STDOUT = 16 << 20;
/** Bytes of stderr that are kept. */
const STDERR_TAIL = 64 * 1024;

/**
 * Runs a program in a process group of its own and collects what it prints. A non-zero exit code is not an
 * error here; a program that is not there throws `prerequisite_missing`, an aborted signal kills the group
 * and throws.
 */
export async function runGroup(
  command: string,
  args: string[],
  { env, signal, silenceMs, totalMs }: GroupOptions,
): Promise<GroupResult> {
  signal?.throwIfAborted();
  const child = startProgram(command, {
    args,
    env,
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  let ended: GroupResult["ended"];
  const kill = () => {
    try {
      // Kills the whole group: helpers hold the pipes open, and a hanging helper would remain for ever.
      Deno.kill(-child.pid, "SIGKILL");
    } catch {
      // The whole group has ended already.
    }
  };
  const end = (why: GroupResult["ended"]) => {
    ended ??= why;
    kill();
  };
  let quiet = setTimeout(end, silenceMs, "silent");
  const slow = setTimeout(end, totalMs, "slow");
  const heard = () => {
    clearTimeout(quiet);
    quiet = setTimeout(end, silenceMs, "silent");
  };
  signal?.addEventListener("abort", kill, { once: true });
  try {
    const [stdout, stderr, { code }] = await Promise.all([
      collect(child.stdout, heard, () => end("endless")),
      collectTail(child.stderr, heard),
      child.status,
    ]);
    signal?.throwIfAborted();
    return { code, stdout, stderr, ...ended && { ended } };
  } finally {
    clearTimeout(quiet);
    clearTimeout(slow);
    signal?.removeEventListener("abort", kill);
  }
}

async function collect(
  stream: ReadableStream<Uint8Array>,
  heard: () => void,
  tooMuch: () => void,
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const chunk of stream) {
    heard();
    size += chunk.length;
    if (size > MAX_STDOUT) tooMuch();
    else text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

async function collectTail(stream: ReadableStream<Uint8Array>, heard: () => void): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    heard();
    text = (text + decoder.decode(chunk, { stream: true })).slice(-STDERR_TAIL);
  }
  return text;
}

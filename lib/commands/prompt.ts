/** Questions on the terminal; passphrases also by the program in `SSH_ASKPASS`, as with ssh. */
import { run } from "../base/process.ts";
import type { Io } from "../base/terminal.ts";
import type { Prompt } from "../client/prompt.ts";
import type { Environment } from "./command.ts";

/** One line without its newline; undefined where the input ended first. Bytes after the line stay unread. */
async function readLine(signal: AbortSignal): Promise<string | undefined> {
  const bytes: number[] = [];
  const one = new Uint8Array(1);
  for (;;) {
    signal.throwIfAborted();
    const count = await Deno.stdin.read(one);
    if (count === null) return bytes.length > 0 ? decode(bytes) : undefined;
    const [byte] = one;
    if (byte === 10 || byte === 13) return decode(bytes);
    // Ctrl-C and Ctrl-D: a raw terminal passes them on as bytes.
    if (byte === 3 || byte === 4) return undefined;
    if (byte === 127 || byte === 8) bytes.pop();
    else bytes.push(byte);
  }
}

const decode = (bytes: number[]) => new TextDecoder().decode(new Uint8Array(bytes));

async function hidden(question: string, io: Io): Promise<string | undefined> {
  await io.stderr.write(question);
  Deno.stdin.setRaw(true, { cbreak: true });
  try {
    return await readLine(io.signal);
  } finally {
    Deno.stdin.setRaw(false);
    await io.stderr.write("\n");
  }
}

async function askpass(program: string, question: string, env: Environment, io: Io) {
  const result = await run(program, [question], {
    env: Object.fromEntries(
      Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined),
    ),
    signal: io.signal,
  });
  return result.code === 0 ? result.stdout.replace(/\r?\n$/, "") : undefined;
}

export function terminalPrompt(io: Io, env: Environment): Prompt {
  const onTerminal = () => io.stdin.isTerminal && io.stderr.isTerminal;
  return {
    async secret(question) {
      const { SSH_ASKPASS: program, SSH_ASKPASS_REQUIRE: require } = env;
      const terminal = onTerminal();
      const wanted = require === "force" || require === "prefer" || !terminal;
      if (program && wanted && require !== "never") {
        return await askpass(program, question, env, io);
      }
      return terminal ? await hidden(question, io) : undefined;
    },
    async confirm(question) {
      if (!onTerminal()) return undefined;
      await io.stderr.write(`${question} [y/N] `);
      const answer = await readLine(io.signal);
      return /^y(es)?$/i.test(answer?.trim() ?? "");
    },
  };
}

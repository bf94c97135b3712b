/** `svc exec NAME [COMMAND…]`: ends with the command's exit code; without a command it runs a shell. */
import { asSvcError, SvcError } from "../base/errors.ts";
import { BrokenPipe } from "../base/terminal.ts";
import { exec } from "../client/exec.ts";
import type { ConnectAgent } from "../client/ssh/serve_agent.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import { errorLines } from "./dispatch.ts";
import type { EXEC_OPTIONS } from "./options.ts";
import { parsePairs } from "./pairs.ts";
import { RawInput, terminalOf, TOOL_FAILED } from "./terminal.ts";

type ExecInvocation = Invocation<typeof EXEC_OPTIONS>;

/** True where the person types into the command's terminal. */
const isTyped = ({ interactive, tty }: ExecInvocation["values"]) => interactive && tty;

function checkWords({ io, values, positionals }: ExecInvocation): void {
  if (positionals.length < 2 && !isTyped(values)) {
    throw new SvcError("usage", "Cannot run exec: COMMAND is missing", {
      help: "name one; or take -it, for a shell",
    });
  }
  if (isTyped(values) && !io.stdin.isTerminal) {
    throw new SvcError(
      "usage",
      "Cannot use -t together with -i: the input device is not a terminal",
      {
        help: "leave out -t, or run it in a terminal",
      },
    );
  }
}

/** The command's environment as "K=V"; on a terminal with TERM, unless the person sets it. */
function environment({ values, env }: ExecInvocation): string[] {
  const own = Object.entries(parsePairs(values.env, "--env", env));
  const kind: [string, string][] = values.tty && env.TERM ? [["TERM", env.TERM]] : [];
  return [...kind, ...own].map(([key, value]) => `${key}=${value}`);
}

/** Throws `prerequisite_missing` where there is no agent to forward. */
async function agentOf({ values, env }: ExecInvocation): Promise<ConnectAgent | undefined> {
  if (!values.forwardAgent) return undefined;
  if (!env.SSH_AUTH_SOCK) {
    throw new SvcError(
      "prerequisite_missing",
      "Cannot forward the SSH agent: SSH_AUTH_SOCK is not set",
      {
        help: "start ssh-agent and add a key, or leave out --forward-agent",
      },
    );
  }
  return (await import("../client/ssh/key_agent.ts")).socketAgent(env.SSH_AUTH_SOCK);
}

export async function run(invocation: ExecInvocation): Promise<number> {
  const { io, values, positionals: [name, ...command] } = invocation;
  checkWords(invocation);
  const env = environment(invocation);
  const agent = await agentOf(invocation);
  let started = false;
  const attempt = async () => {
    using raw = new RawInput(io.stdin);
    const { client, target } = await openConnection(invocation);
    return await exec(client, name, {
      command,
      ...(command.length === 0 && { shells: target.settings.shells }),
      env,
      user: values.user,
      workingDir: values.workdir,
      instance: values.instance,
      tty: values.tty,
    }, {
      stdin: values.interactive ? io.stdin.readable : undefined,
      onOutput: (stream, data) => io[stream].write(data),
      onStart: async () => {
        started = true;
        if (isTyped(values)) await raw.start();
      },
      signal: io.signal,
      ...agent && { agent },
      ...(values.tty && { terminal: terminalOf(io) }),
    });
  };
  try {
    return await attempt();
  } catch (error) {
    if (!started || error instanceof BrokenPipe) throw error;
    io.signal.throwIfAborted();
    await io.stderr.write(errorLines(asSvcError(error)));
    return TOOL_FAILED;
  }
}

/** `svc exec NAME COMMAND…`: ends with the command's exit code. */
import { asSvcError } from "../base/errors.ts";
import { BrokenPipe } from "../base/terminal.ts";
import { exec } from "../client/exec.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { errorLines } from "./dispatch.ts";
import type { EXEC_OPTIONS } from "./options.ts";
import { parsePairs } from "./pairs.ts";

/** What svc ends with when it, and not the command, failed after the command was started. */
const TOOL_FAILED = 125;

export async function run(invocation: Invocation<typeof EXEC_OPTIONS>): Promise<number> {
  const { io, values, positionals: [name, ...command] } = invocation;
  const env = Object.entries(parsePairs(values.env, "--env", invocation.env));
  let started = false;
  try {
    return await exec(await connect(invocation), name, {
      command,
      env: env.map(([key, value]) => `${key}=${value}`),
      user: values.user,
      workingDir: values.workdir,
      instance: values.instance,
    }, {
      stdin: values.interactive ? io.stdin.readable : undefined,
      onOutput: (stream, data) => io[stream].write(data),
      onStart: () => started = true,
      signal: io.signal,
    });
  } catch (error) {
    if (!started || error instanceof BrokenPipe) throw error;
    io.signal.throwIfAborted();
    await io.stderr.write(errorLines(asSvcError(error)));
    return TOOL_FAILED;
  }
}

/** The process of a container that is made and waits for its start: started, shown, and its exit code. */
import type { DeploySpec } from "../../api/deploy_spec.ts";
import { printedBytes } from "../../api/log_bytes.ts";
import { SvcError } from "../../base/errors.ts";
import type { Io } from "../../base/terminal.ts";
import type { Client } from "../../client/client.ts";
import { powerDeployment } from "../../client/deployments.ts";
import { attachMain } from "../../client/exec.ts";
import { sessionLogs } from "../../client/session_logs.ts";
import { signalDeployment } from "../../client/workloads.ts";
import { isUp } from "../../compose/state.ts";
import { Watch } from "../../compose/watch.ts";
import { RawInput, terminalOf } from "../terminal.ts";

/** Signals that are passed on; the next interrupt ends the command here. */
const PASSED = 2;

/** A process that ends at once is started all the same: its exit code is told by its status. */
async function begin(client: Client, name: string): Promise<void> {
  try {
    await powerDeployment(client, name, "start");
  } catch (error) {
    const ended = error instanceof SvcError && error.code === "deploy_failed" &&
      error.detail?.instance !== undefined;
    if (!ended) throw error;
  }
}

/** Its exit code once it has ended. */
async function exitOf(watch: Watch, name: string, signal: AbortSignal): Promise<number> {
  const status = await watch.wait(
    name,
    (status) => !status || status.instances.every((one) => !isUp(one) && one.state !== "created"),
    signal,
  );
  if (!status) throw new SvcError("not_found", `Cannot tell how ${name} ended: it was removed`);
  return status.instances[0]?.exitCode ?? 0;
}

/** On this terminal: what it prints and what is typed go straight through. */
async function onTerminal(client: Client, name: string, io: Io): Promise<number | undefined> {
  using raw = new RawInput(io.stdin);
  const terminal = terminalOf(io);
  return await attachMain(client, name, { stdin: true, size: terminal.size() }, {
    signal: io.signal,
    onReady: () => begin(client, name),
    onOutput: (stream, data) => io[stream].write(data),
    onStart: async ({ stdin }) => {
      await raw.start();
      return { ...stdin && { stdin: io.stdin.readable }, terminal };
    },
  });
}

/**
 * Without a terminal: its output is that of its log, from the first byte to the last, whenever it ends. Resolves to
 * its exit code.
 */
async function onPipes(client: Client, name: string, io: Io): Promise<number> {
  using watch = new Watch(client);
  const started = Promise.withResolvers<void>();
  let begun = false;
  attachMain(client, name, { stdin: true }, {
    signal: io.signal,
    onReady: () => {
      begun = true;
      return begin(client, name).then(started.resolve, started.reject);
    },
    onOutput: () => Promise.resolve(),
    onStart: ({ stdin }) => ({ ...stdin && { stdin: io.stdin.readable } }),
  }).catch((error) => {
    // It may end before anybody is attached to it: its status tells how.
    if (!begun) started.reject(error);
  });
  await started.promise;
  const over = new AbortController();
  const shown = (async () => {
    const until = { over: over.signal, signal: io.signal };
    for await (const frame of sessionLogs(client, name, until)) {
      await io[frame.stream].write(printedBytes(frame));
    }
  })();
  shown.catch(() => {/* thrown below */});
  const code = await exitOf(watch, name, io.signal);
  over.abort();
  await shown;
  return code;
}

/** Resolves to the exit code. Interrupts go to the process where it has no terminal. */
export async function runOnce(client: Client, spec: DeploySpec, io: Io): Promise<number> {
  const { name } = spec;
  if (spec.tty) return await onTerminal(client, name, io) ?? 0;
  let passed = 0;
  const release = io.onSignal?.((signal) => {
    if (["SIGINT", "SIGTERM"].includes(signal) && ++passed > PASSED) return false;
    signalDeployment(client, name, signal).catch(() => {/* it has ended */});
    return true;
  });
  try {
    return await onPipes(client, name, io);
  } finally {
    release?.();
  }
}

/** `svc attach NAME`: the main process of an instance; ends with its exit code, or with 0 when it detaches. */
import { asSvcError } from "../base/errors.ts";
import { BrokenPipe } from "../base/terminal.ts";
import type { Client } from "../client/client.ts";
import { getDeployment } from "../client/deployments.ts";
import { attachMain, type Part } from "../client/exec.ts";
import { signalDeployment } from "../client/workloads.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { parseDetachKeys, withoutKeys } from "../base/detach_keys.ts";
import { errorLines } from "./dispatch.ts";
import { RawInput, terminalOf, TOOL_FAILED } from "./terminal.ts";
import type { ATTACH_OPTIONS } from "./workload_options.ts";

type Call = Invocation<typeof ATTACH_OPTIONS>;

const UP = new Set(["running", "healthy", "unhealthy"]);

/** Interrupts that are passed on; the next one detaches. */
const PASSED = 2;

/** The instance that both the session and signals go to; undefined: none runs yet. */
async function instanceOf(client: Client, name: string): Promise<string | undefined> {
  const { instances } = await getDeployment(client, name);
  return instances.find(({ state }) => UP.has(state))?.id;
}

/** Passes signals on to the process. Returns a function that stops this. */
function passSignals(
  { io }: Call,
  failed: (error: unknown) => void,
  send: (signal: string) => Promise<void>,
): () => void {
  let interrupts = 0;
  const pass = (signal: string) => {
    if ((signal === "SIGINT" || signal === "SIGTERM") && ++interrupts > PASSED) return false;
    send(signal).catch(failed);
    return true;
  };
  return io.onSignal?.(pass) ?? (() => {});
}

class Attaching {
  readonly #call: Call;
  readonly #name: string;
  readonly #keys: Uint8Array;
  /** Aborts with the error of a signal that could not be passed on. */
  readonly #failed = new AbortController();
  started = false;
  /** The keys that detach have come. */
  #typedKeys = false;
  #release = () => {};

  constructor(call: Call) {
    this.#call = call;
    this.#name = call.positionals[0];
    this.#keys = parseDetachKeys(call.values.detachKeys);
  }

  /** What is typed into the process; on a terminal without the keys that detach. */
  #input(): Part {
    const { stdin } = this.#call.io;
    if (!stdin.isTerminal || this.#keys.length === 0) return { stdin: stdin.readable };
    const keys = withoutKeys(this.#keys, () => this.#typedKeys = true);
    return {
      stdin: stdin.readable.pipeThrough(keys),
      onInputEnd: () => !this.#typedKeys,
    };
  }

  /** Resolves to the exit code; undefined: detached. */
  async run(): Promise<number | undefined> {
    const { io, values } = this.#call;
    const client = await connect(this.#call);
    const instance = values.instance ??
      (values.sigProxy ? await instanceOf(client, this.#name) : undefined);
    const terminal = terminalOf(io);
    using raw = new RawInput(io.stdin);
    try {
      return await attachMain(client, this.#name, {
        instance,
        stdin: values.stdin,
        size: terminal.size(),
      }, {
        signal: AbortSignal.any([io.signal, this.#failed.signal]),
        onOutput: (stream, data) => io[stream].write(data),
        onStart: async ({ tty, stdin }) => {
          this.started = true;
          if (tty && stdin && io.stdin.isTerminal) await raw.start();
          if (!tty && values.sigProxy) {
            this.#release = passSignals(
              this.#call,
              (error) => this.#failed.abort(error),
              (signal) => signalDeployment(client, this.#name, signal, instance),
            );
          }
          return { ...stdin && this.#input(), ...tty && { terminal } };
        },
      });
    } finally {
      this.#release();
    }
  }
}

export async function run(invocation: Call): Promise<number> {
  const { io, positionals: [name] } = invocation;
  const attaching = new Attaching(invocation);
  try {
    const exit = await attaching.run();
    if (exit !== undefined) return exit;
  } catch (error) {
    if (!attaching.started || error instanceof BrokenPipe) throw error;
    io.signal.throwIfAborted();
    await io.stderr.write(errorLines(asSvcError(error)));
    return TOOL_FAILED;
  }
  await io.stderr.write(`svc: detached from ${name}\n`);
  return 0;
}

/** The process that serves a session's mounts (serve.ts), as its server sees it. */
import { SvcError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { ownCommand } from "../../base/own_command.ts";
import { startProgram } from "../../base/process.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { childStdio } from "../../wire/stdio_duplex.ts";
import { MOUNT_WORD, readMountLine, type ServedMount } from "./plan.ts";

/** Milliseconds for the process to end once its input has ended. */
const END_MS = 5000;
/** Characters of its lines that are kept at most. */
const MAX_LINE = 16 * 1024;

export class MountProcess {
  /** 9P, whose client is the process. */
  readonly stream: Duplex;
  readonly #ready = Promise.withResolvers<void>();
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;

  constructor(private readonly child: Deno.ChildProcess, private readonly log: Logger) {
    this.stream = childStdio(child);
    this.#ready.promise.catch(() => {/* who waits is told */});
    this.ended = this.#watch();
  }

  static async start(mounts: readonly ServedMount[], log: Logger): Promise<MountProcess> {
    const [program, ...args] = await ownCommand([MOUNT_WORD, JSON.stringify(mounts)]);
    const piped = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
    return new MountProcess(startProgram(program, { args, ...piped }), log);
  }

  /** Resolves when all is mounted. Throws `upstream_failed` where it cannot be. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  async #watch(): Promise<void> {
    let line = "";
    for await (const text of this.child.stderr.pipeThrough(new TextDecoderStream())) {
      const lines = (line + text).split("\n");
      line = lines.pop()!.slice(-MAX_LINE);
      for (const one of lines) this.#heard(one);
    }
    const { code } = await this.child.status;
    this.#ready.reject(mountFailure(`the process that serves them ended with ${code}`));
  }

  #heard(text: string): void {
    const line = readMountLine(text);
    if (!line) this.log.warn("the process that serves a session's mounts said", { text });
    else if ("ready" in line) this.#ready.resolve();
    else this.#ready.reject(mountFailure(line.failed));
  }

  /** Ends its input, so that it unmounts and ends; kills it where it does not. */
  async end(): Promise<void> {
    this.stream.reset();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), END_MS);
    try {
      await this.ended;
    } finally {
      clearTimeout(timer);
    }
  }
}

export function mountFailure(why: string): SvcError {
  return new SvcError("upstream_failed", `Cannot mount the caller's files: ${why}`, {
    help: "check that both sides are svc of about the same version, and that the server may mount",
  });
}

/** A forward that `ssh -N -L` holds, started again after it broke. Who connects to it gets a node socket. */
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { sleep } from "../../base/sleep.ts";

export interface SshForwardOptions {
  /** ssh's arguments but those of the forward; the destination comes last. `folder` is private to this forward. */
  args: (folder: string) => Promise<string[]> | string[];
  /** "host:port" or an absolute path of a socket, as the other host reaches it. */
  remote: string;
  /** The child's environment in addition to this process's; absent: only this process's. */
  env?: Record<string, string>;
  /** The error for ssh's last lines on standard error. */
  failure: (words: string) => SvcError;
  signal?: AbortSignal;
}

interface Running {
  child: Deno.ChildProcess;
  local: { path: string } | { host: string; port: number };
  /** Resolves with ssh's last lines on standard error. */
  ended: Promise<string>;
  alive: boolean;
}

const READY_MS = 60_000;
/** Milliseconds between looks whether ssh listens. */
const LOOK_MS = 25;

export class SshForward implements AsyncDisposable {
  readonly #options: SshForwardOptions;
  #folder?: string;
  #running?: Promise<Running>;
  #count = 0;

  constructor(options: SshForwardOptions) {
    this.#options = options;
  }

  /** A connection through the forward. Throws `failure`'s error, or `prerequisite_missing` without ssh. */
  async dial(): Promise<Socket> {
    const held = this.#running ??= this.#begin();
    const running = await held;
    const socket = running.alive ? await reach(running).catch(() => undefined) : undefined;
    if (socket) return socket;
    // It broke: where nothing listens any more, its process is about to end.
    end(running);
    if (this.#running === held) this.#running = this.#begin();
    return await reach(await (this.#running ??= this.#begin()));
  }

  #begin(): Promise<Running> {
    const begun = this.#start();
    // A failed start is tried again by the next caller.
    begun.catch(() => {
      if (this.#running === begun) this.#running = undefined;
    });
    return begun;
  }

  async #start(): Promise<Running> {
    const { args, remote, env } = this.#options;
    this.#folder ??= await Deno.makeTempDir({ prefix: "svc-ssh-" });
    const local: Running["local"] = Deno.build.os === "windows"
      ? { host: "127.0.0.1", port: freePort() }
      : { path: join(this.#folder, `t${this.#count++}`) };
    const from = "path" in local ? local.path : `127.0.0.1:${local.port}`;
    const child = spawn([
      ...["-N", "-T", "-L", `${from}:${remote}`],
      ...["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=10"],
      ...["-o", "ControlPath=none", "-o", "ClearAllForwardings=no"],
      ...await args(this.#folder),
    ], env);
    const running: Running = { child, local, ended: Promise.resolve(""), alive: true };
    running.ended = lastLines(child).finally(() => running.alive = false);
    await this.#ready(running);
    return running;
  }

  async #ready(running: Running): Promise<void> {
    const { signal, failure } = this.#options;
    const until = performance.now() + READY_MS;
    for (;;) {
      const socket = await reach(running).catch(() => undefined);
      if (socket) return void socket.destroy();
      if (!running.alive) throw failure(await running.ended);
      if (performance.now() > until || signal?.aborted) {
        end(running);
        signal?.throwIfAborted();
        throw failure("it did not get there in time");
      }
      await sleep(LOOK_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const running = await this.#running?.catch(() => undefined);
    if (running) {
      end(running);
      await running.ended;
    }
    if (this.#folder) await Deno.remove(this.#folder, { recursive: true });
  }
}

/** The error of an ssh that ended, by its own last words. `address`: as `ssh` takes it. */
export function sshFailure(
  address: string,
  words: string,
  attempted: { code: "server_unreachable" | "unavailable"; what: string } = {
    code: "server_unreachable",
    what: `Cannot tunnel through ${address}`,
  },
): SvcError {
  const changed = /REMOTE HOST IDENTIFICATION HAS CHANGED|differs from the key/i.test(words);
  const revoked = /REVOKED/.test(words);
  const unknown = /Host key verification failed/i.test(words);
  const last = words.split("\n").filter((line) => line.trim() !== "").at(-1) ?? "ssh ended";
  const why = revoked
    ? "its host key is revoked in known_hosts"
    : changed
    ? "its host key has changed from the one in known_hosts"
    : unknown
    ? "its host key is not in known_hosts"
    : undefined;
  const help = `try \`ssh ${address}\``;
  return why
    ? new SvcError("denied", `Cannot trust ${address}: ${why}`, {
      help,
      detail: { hostKey: revoked ? "revoked" : changed ? "changed" : "new" },
    })
    : new SvcError(attempted.code, `${attempted.what}: ${last.trim()}`, { help });
}

function end({ alive, child }: Running): void {
  try {
    if (alive) child.kill();
  } catch {
    // it ended meanwhile
  }
}

function spawn(args: string[], env?: Record<string, string>): Deno.ChildProcess {
  try {
    return new Deno.Command("ssh", {
      args,
      env,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    throw new SvcError("prerequisite_missing", "Cannot run ssh: it is not on PATH", {
      cause,
      help: "install OpenSSH's client, or reach the host without ssh",
    });
  }
}

async function lastLines({ stderr, status }: Deno.ChildProcess): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of stderr) {
    text = (text + decoder.decode(part, { stream: true })).slice(-4096);
  }
  await status;
  return text;
}

function reach({ local }: Running): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ ...local, allowHalfOpen: true });
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

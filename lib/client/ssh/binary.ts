/**
 * A tunnel that `ssh -N -L` holds: for hosts behind a ProxyCommand or a jump host, and where the profile asks
 * for it.
 */
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { delay } from "./delay.ts";
import type { SshTunnel } from "../profile/types.ts";
import { DEFAULT_REMOTE_ADDR } from "../resolve.ts";
import type { Dialer } from "../transport/dialer.ts";
import { type Environment, NULL_FILE, quoted, splitAddress, sshArguments } from "./config.ts";
import { parsePublicKey } from "../../wire/ssh/packing.ts";

export interface BinaryOptions {
  settings: SshTunnel;
  env: Environment;
  signal: AbortSignal;
}

interface Running {
  child: Deno.ChildProcess;
  local: { path: string } | { host: string; port: number };
  /** Resolves with ssh's last lines on standard error. */
  ended: Promise<string>;
  alive: boolean;
}

const READY_MS = 60_000;

export class SshBinary implements Dialer {
  readonly resumes = true;
  readonly #options: BinaryOptions;
  #folder?: string;
  #running?: Promise<Running>;
  #count = 0;

  constructor(options: BinaryOptions) {
    this.#options = options;
  }

  async dial(): Promise<Socket> {
    let running = await (this.#running ??= this.#start());
    if (!running.alive) running = await (this.#running = this.#start());
    return await reach(running).catch(async (error) => {
      throw running.alive ? error : this.#failure(await running.ended);
    });
  }

  /** Arguments that make ssh check the host key as the profile says. */
  async #hostKey(folder: string): Promise<string[]> {
    const { "host-key": pinned, "insecure-host-key": insecure } = this.#options.settings;
    if (pinned !== undefined) {
      const file = join(folder, "known_hosts");
      const { type, blob } = parsePublicKey(pinned)!;
      await Deno.writeTextFile(file, `svc-pinned ${type} ${blob.toString("base64")}\n`, {
        mode: 0o600,
      });
      return [
        ...["-o", "HostKeyAlias=svc-pinned", "-o", `UserKnownHostsFile=${quoted(file)}`],
        ...["-o", `GlobalKnownHostsFile=${NULL_FILE}`, "-o", "StrictHostKeyChecking=yes"],
        ...["-o", `HostKeyAlgorithms=${type === "ssh-rsa" ? "rsa-sha2-512,rsa-sha2-256" : type}`],
      ];
    }
    if (!insecure) return [];
    return ["-o", "StrictHostKeyChecking=no", "-o", `UserKnownHostsFile=${NULL_FILE}`];
  }

  async #start(): Promise<Running> {
    const { settings, env } = this.#options;
    this.#folder ??= await Deno.makeTempDir({ prefix: "svc-ssh-" });
    const { host: remote, port = 5000 } = splitAddress(
      settings["remote-addr"] ?? DEFAULT_REMOTE_ADDR,
    );
    const target = `${remote.includes(":") ? `[${remote}]` : remote}:${port}`;
    const local: Running["local"] = Deno.build.os === "windows"
      ? { host: "127.0.0.1", port: freePort() }
      : { path: join(this.#folder, `t${this.#count++}`) };
    const from = "path" in local ? local.path : `127.0.0.1:${local.port}`;
    const child = spawn([
      // ssh uses the first value of an option: the profile's host key settings go before those of its file.
      ...await this.#hostKey(this.#folder),
      ...sshArguments(settings),
      ...["-N", "-T", "-L", `${from}:${target}`],
      ...["-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=10"],
      ...["-o", "ControlPath=none", "-o", "ClearAllForwardings=no"],
      splitAddress(settings.addr!).host,
    ], env);
    const running: Running = { child, local, ended: Promise.resolve(""), alive: true };
    running.ended = lastLines(child).finally(() => running.alive = false);
    await this.#ready(running);
    return running;
  }

  async #ready(running: Running): Promise<void> {
    const { signal } = this.#options;
    const until = Date.now() + READY_MS;
    for (;;) {
      const socket = await reach(running).catch(() => undefined);
      if (socket) return void socket.destroy();
      if (!running.alive) throw this.#failure(await running.ended);
      if (Date.now() > until || signal.aborted) {
        running.child.kill();
        signal.throwIfAborted();
        throw this.#failure("it did not get there in time");
      }
      await delay(25);
    }
  }

  #failure(words: string): SvcError {
    const { addr } = this.#options.settings;
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
    const help = `try \`ssh ${addr}\``;
    return why
      ? new SvcError("denied", `Cannot trust ${addr}: ${why}`, {
        help,
        detail: { hostKey: revoked ? "revoked" : changed ? "changed" : "new" },
      })
      : new SvcError("server_unreachable", `Cannot tunnel through ${addr}: ${last.trim()}`, {
        help,
      });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const running = await this.#running?.catch(() => undefined);
    if (running?.alive) {
      running.child.kill();
      await running.ended;
    }
    if (this.#folder) await Deno.remove(this.#folder, { recursive: true });
  }
}

function spawn(args: string[], env: Environment): Deno.ChildProcess {
  try {
    return new Deno.Command("ssh", {
      args,
      env: Object.fromEntries(
        Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined),
      ),
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    throw new SvcError("prerequisite_missing", "Cannot run ssh: it is not on PATH", {
      cause,
      help: "install OpenSSH's client, or reach the host without ProxyCommand",
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
    const socket = "path" in local ? connect(local.path) : connect(local.port, local.host);
    socket.once("connect", () => resolve(socket));
    socket.once("error", reject);
  });
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

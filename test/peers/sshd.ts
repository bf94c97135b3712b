/** OpenSSH's server on the loopback interface, with keys of the test's own. */
import { join } from "node:path";
import { freePort } from "../fixtures/free_port.ts";
import { eventually } from "../waits.ts";

export interface Sshd extends AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  /** Path of the private key that may log in; its public half is beside it. */
  readonly user: string;
  /** Path of the host's private key. */
  readonly host: string;
  /** known_hosts line of the server. */
  knownHosts(): Promise<string>;
  /** A new host key of this type; takes effect by `restart`. */
  rekey(type?: string): Promise<void>;
  restart(): Promise<void>;
  /** Ends the listener and the connections that there are. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Ends the connections that there are, not the listener; none of them takes or holds anything afterwards. */
  drop(): Promise<void>;
}

export async function tool(
  command: string,
  args: string[],
  env: Record<string, string> = {},
): Promise<string> {
  const output = await new Deno.Command(command, {
    args,
    env,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  })
    .output();
  const decoder = new TextDecoder();
  if (!output.success) {
    throw new Error(`${command} ${args.join(" ")}: ${decoder.decode(output.stderr)}`);
  }
  return decoder.decode(output.stdout);
}

export async function makeKey(
  path: string,
  type = "ed25519",
  passphrase = "",
  more: string[] = [],
): Promise<void> {
  await Deno.remove(path).catch(() => {/* not there */});
  await tool("ssh-keygen", ["-q", "-t", type, ...more, "-N", passphrase, "-f", path]);
}

async function answers(where: Deno.ConnectOptions | Deno.UnixConnectOptions): Promise<true> {
  const connection = await ("path" in where ? Deno.connect(where) : Deno.connect(where));
  connection.close();
  return true;
}

async function childrenOf(pid: number): Promise<number[]> {
  const text = await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`).catch(() => "");
  const direct = text.split(" ").filter((word) => word !== "").map(Number);
  return [...direct, ...(await Promise.all(direct.map(childrenOf))).flat()];
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // ended meanwhile
  }
}

/** True where it has ended, also where nobody has asked how. */
const hasEnded = (pid: number) =>
  Deno.readTextFile(`/proc/${pid}/stat`).then((text) => /^.*\) [ZX]/.test(text), () => true);

/** A process that is killed has its sockets for a moment more. */
async function end(pids: readonly number[]): Promise<void> {
  for (const pid of pids) kill(pid);
  await eventually(
    "the end of killed processes",
    async () => (await Promise.all(pids.map(hasEnded))).every(Boolean),
    5,
  );
}

/** `listen`: the address, if not the loopback's; `more`: lines of its configuration. */
export async function startSshd(
  { listen = "127.0.0.1", more = "" }: { listen?: string; more?: string } = {},
): Promise<Sshd> {
  const folder = await Deno.makeTempDir({ prefix: "svc-sshd-" });
  const port = freePort();
  const host = join(folder, "host");
  const user = join(folder, "user");
  await Promise.all([makeKey(host), makeKey(user)]);
  await Deno.mkdir("/run/sshd", { recursive: true });
  await Deno.copyFile(`${user}.pub`, join(folder, "authorized_keys"));
  const config = join(folder, "sshd_config");
  await Deno.writeTextFile(
    config,
    `ListenAddress ${listen}\nPort ${port}\nHostKey ${host}\nPidFile none\nUsePAM no\nStrictModes no\n` +
      `AuthorizedKeysFile ${folder}/authorized_keys\nPasswordAuthentication no\n` +
      `KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nMaxStartups 100\n${more}`,
  );
  let child: Deno.ChildProcess;
  const start = async () => {
    child = new Deno.Command("/usr/sbin/sshd", {
      args: ["-D", "-f", config, "-E", join(folder, "log")],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    await eventually("sshd", () => answers({ hostname: "127.0.0.1", port }));
  };
  const stop = async () => {
    await end([child.pid, ...await childrenOf(child.pid)]);
    await child.status;
  };
  await start();
  return {
    port,
    folder,
    user,
    host,
    knownHosts: async () => `[127.0.0.1]:${port} ${await Deno.readTextFile(`${host}.pub`)}`,
    rekey: (type) => makeKey(host, type),
    ...{ stop, start },
    async restart() {
      await stop();
      await start();
    },
    drop: async () => await end(await childrenOf(child.pid)),
    async [Symbol.asyncDispose]() {
      await stop();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** Until it is disposed of, the `ssh` of this process logs in to the server as root, by the name `peer`. */
export interface OwnSsh extends Disposable {
  /** Path of the known_hosts file that it reads. */
  readonly known: string;
}

export async function useSsh(sshd: Sshd): Promise<OwnSsh> {
  const known = join(sshd.folder, "known");
  await Deno.writeTextFile(known, await sshd.knownHosts());
  const config = join(sshd.folder, "ssh_config");
  await Deno.writeTextFile(
    config,
    `Host peer\n  HostName 127.0.0.1\n  Port ${sshd.port}\n  User root\n` +
      `  IdentityFile ${sshd.user}\n  UserKnownHostsFile ${known}\n`,
  );
  // A server's ssh reads its user's configuration, as docker's client does.
  const bin = join(sshd.folder, "bin");
  await Deno.mkdir(bin);
  const path = Deno.env.get("PATH")!;
  await Deno.writeTextFile(
    join(bin, "ssh"),
    `#!/bin/sh\nPATH=${path} exec ssh -F ${config} "$@"\n`,
    { mode: 0o755 },
  );
  Deno.env.set("PATH", `${bin}:${path}`);
  return { known, [Symbol.dispose]: () => Deno.env.set("PATH", path) };
}

export interface Agent extends AsyncDisposable {
  readonly socket: string;
  add(key: string, env?: Record<string, string>): Promise<void>;
}

export async function startAgent(): Promise<Agent> {
  const folder = await Deno.makeTempDir({ prefix: "svc-agent-" });
  const socket = join(folder, "agent");
  const child = new Deno.Command("ssh-agent", {
    args: ["-D", "-a", socket],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  })
    .spawn();
  // The socket is there before anybody listens on it.
  await eventually("the agent", () => answers({ transport: "unix", path: socket }));
  return {
    socket,
    add: async (key, env = {}) =>
      void await tool("ssh-add", ["-q", key], { SSH_AUTH_SOCK: socket, ...env }),
    async [Symbol.asyncDispose]() {
      kill(child.pid);
      await child.status;
      await Deno.remove(folder, { recursive: true });
    },
  };
}

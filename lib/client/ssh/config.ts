/** OpenSSH's configuration of a host, from `ssh -G`; without ssh, its defaults. */
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { run } from "../../base/process.ts";
import type { SshTunnel } from "../profile/types.ts";

export interface SshHost {
  hostname: string;
  port: number;
  user: string;
  /** In the order in which they are tried; a file may be missing. */
  identityFiles: string[];
  /** Path of the agent's socket; absent: no agent is asked. */
  agent?: string;
  knownHosts: string[];
  /** The host's name in known_hosts, if it differs from the host name. */
  hostKeyAlias?: string;
  strict: "ask" | "yes" | "no" | "accept-new";
  /** A ProxyCommand or a jump host is configured: only ssh itself can connect. */
  proxied: boolean;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** "[user@]host[:port]" or "[v6]:port" of an address or an alias. */
export function splitAddress(addr: string): { user?: string; host: string; port?: number } {
  const match = /^(?:(.+)@)?(?:\[(.+)\]|([^:@]+))(?::(\d+))?$/.exec(addr);
  if (!match) return { host: addr };
  const [, user, address, name, port] = match;
  return {
    ...(user !== undefined && { user }),
    host: address ?? name,
    ...(port !== undefined && { port: Number(port) }),
  };
}

/** The user to log in as: the field goes before the user in the address. */
function userOf({ addr, user }: SshTunnel): string | undefined {
  return user ?? splitAddress(addr!).user;
}

/** Command-line options of `ssh` for the profile's fields. */
export function sshArguments(settings: SshTunnel): string[] {
  const { host, port } = splitAddress(settings.addr!);
  const user = userOf(settings);
  if (host.startsWith("-")) {
    throw new SvcError(
      "config_invalid",
      `Cannot use ssh-tunnel.addr ${JSON.stringify(host)}: it begins with a dash`,
    );
  }
  return [
    ...(settings["no-ssh-config"] ? ["-F", "none"] : []),
    ...(port === undefined ? [] : ["-p", String(port)]),
    ...(user === undefined ? [] : ["-l", user]),
    ...(settings["identity-file"] === undefined
      ? []
      : ["-i", settings["identity-file"], "-o", "IdentitiesOnly=yes"]),
    ...(settings["no-agent"] ? ["-o", "IdentityAgent=none"] : []),
    ...(settings["known-hosts"] === undefined ? [] : [
      "-o",
      `UserKnownHostsFile=${quoted(settings["known-hosts"])}`,
      "-o",
      `GlobalKnownHostsFile=${NULL_FILE}`,
    ]),
  ];
}

/** An empty file; some versions of ssh do not accept "none" for a file. */
export const NULL_FILE = Deno.build.os === "windows" ? "NUL" : "/dev/null";

/** A file name in an option's value, where spaces separate names. */
export function quoted(path: string): string {
  return `"${path.replaceAll('"', '\\"')}"`;
}

function defaults(settings: SshTunnel, env: Environment): SshHost {
  const { host, port } = splitAddress(settings.addr!);
  const home = env.HOME ?? env.USERPROFILE ?? "";
  const ssh = join(home, ".ssh");
  return {
    hostname: host,
    port: port ?? 22,
    user: userOf(settings) ?? env.USER ?? env.LOGNAME ?? env.USERNAME ?? "root",
    identityFiles: settings["identity-file"]
      ? [settings["identity-file"]]
      : ["id_ed25519", "id_ecdsa", "id_rsa"].map((name) => join(ssh, name)),
    ...(!settings["no-agent"] && env.SSH_AUTH_SOCK && { agent: env.SSH_AUTH_SOCK }),
    knownHosts: [settings["known-hosts"] ?? join(ssh, "known_hosts")],
    strict: "ask",
    proxied: false,
  };
}

/** Splits a value at blanks; a quoted word may hold blanks. */
function words(value: string): string[] {
  return [...value.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map((match) =>
    match[1]?.replaceAll('\\"', '"') ?? match[2]
  );
}

const STRICT: Record<string, SshHost["strict"]> = {
  true: "yes",
  yes: "yes",
  false: "no",
  no: "no",
  off: "no",
  "accept-new": "accept-new",
};

/** Reads the output of `ssh -G`. */
export function parseSshG(text: string, settings: SshTunnel, env: Environment): SshHost {
  const base = defaults(settings, env);
  const home = env.HOME ?? "";
  const values = Map.groupBy(
    text.split("\n").map((line) => /^(\S+) (.*)$/.exec(line)).filter((match) => match !== null),
    (match) => match[1].toLowerCase(),
  );
  const all = (key: string) => (values.get(key) ?? []).map((match) => match[2]);
  const one = (key: string) => all(key)[0];
  const expand = (path: string) => path.startsWith("~/") ? join(home, path.slice(2)) : path;
  const set = (value?: string) => value !== undefined && value !== "none" && value !== "";
  const known = [...all("userknownhostsfile"), ...all("globalknownhostsfile")].flatMap(words)
    .filter((path) => path !== "none").map(expand);
  const agent = one("identityagent");
  const socket = agent === undefined || agent === "SSH_AUTH_SOCK"
    ? env.SSH_AUTH_SOCK
    : agent.startsWith("$")
    ? env[agent.slice(1)]
    : expand(agent);
  const alias = one("hostkeyalias");
  const { agent: _, ...rest } = base;
  return {
    ...rest,
    hostname: one("hostname") ?? base.hostname,
    port: Number(one("port") ?? base.port),
    user: one("user") ?? base.user,
    identityFiles: all("identityfile").filter(set).map(expand),
    ...(!settings["no-agent"] && set(socket) && { agent: socket }),
    knownHosts: settings["known-hosts"] ? [settings["known-hosts"]] : known,
    ...(set(alias) && { hostKeyAlias: alias }),
    strict: STRICT[one("stricthostkeychecking") ?? ""] ?? "ask",
    proxied: set(one("proxycommand")) || set(one("proxyjump")),
  };
}

/** Throws `config_invalid` for an address that ssh refuses. */
export async function sshHost(
  settings: SshTunnel,
  env: Environment,
  signal?: AbortSignal,
): Promise<SshHost> {
  const { host } = splitAddress(settings.addr!);
  let result;
  try {
    result = await run("ssh", [...sshArguments(settings), "-G", host], {
      env: Object.fromEntries(
        Object.entries(env).filter((pair): pair is [string, string] => pair[1] !== undefined),
      ),
      signal,
    });
  } catch (error) {
    // Without ssh on this machine its defaults apply.
    if (error instanceof SvcError && error.code === "prerequisite_missing") {
      return defaults(settings, env);
    }
    throw error;
  }
  if (result.code === 0) return parseSshG(result.stdout, settings, env);
  throw new SvcError(
    "config_invalid",
    `Cannot use ssh-tunnel.addr ${settings.addr}: ${result.stderr.trim().split("\n").at(-1)}`,
    { help: "correct ssh-tunnel.addr, or what ssh_config says of it" },
  );
}

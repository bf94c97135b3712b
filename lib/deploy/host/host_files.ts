/** The files a container host writes for its containers: hosts, resolv.conf, hostname. */

export interface HostsOptions {
  hostname: string;
  /** The container's own address; absent on host and none networks. */
  ip?: string;
  ip6?: string;
  /** `extraHosts`; "host-gateway" as an address means the gateway. */
  extra?: Record<string, string>;
  gateway?: string;
  /** Other deployments on the same networks. */
  peers?: { ip: string; ip6?: string; names: string[] }[];
}

/** A qualified name together with its first label as a short name. */
function withShort(hostname: string): string {
  const [short, ...domain] = hostname.split(".");
  return domain.length > 0 ? `${hostname} ${short}` : hostname;
}

export function hostsFile(options: HostsOptions): string {
  const lines = [
    "127.0.0.1\tlocalhost",
    "::1\tlocalhost ip6-localhost ip6-loopback",
    "fe00::\tip6-localnet",
    "ff00::\tip6-mcastprefix",
    "ff02::1\tip6-allnodes",
    "ff02::2\tip6-allrouters",
    `${options.ip ?? "127.0.1.1"}\t${withShort(options.hostname)}`,
    ...(options.ip6 ? [`${options.ip6}\t${withShort(options.hostname)}`] : []),
  ];
  for (const [name, address] of Object.entries(options.extra ?? {})) {
    const ip = address === "host-gateway" ? options.gateway ?? "127.0.0.1" : address;
    lines.push(`${ip}\t${name}`);
  }
  for (const { ip, ip6, names } of options.peers ?? []) {
    for (const one of ip6 ? [ip, ip6] : [ip]) lines.push(`${one}\t${names.join(" ")}`);
  }
  return lines.join("\n") + "\n";
}

export interface ResolvOptions {
  servers?: string[];
  /** A resolver on the container's network: it is listed before the host's, which answer while it is down. */
  gateway?: string;
  /** The network has no access beyond itself. */
  internal?: boolean;
  search?: string[];
  options?: string[];
  /** True where the container shares the host's network and so its loopback resolvers. */
  hostNetwork?: boolean;
}

/** C libraries read no more servers (MAXNS of resolv.h). */
const MOST_SERVERS = 3;

/** `host` is the host's resolv.conf; each given list replaces the host's lines of its kind. */
export function resolvConf(host: string, options: ResolvOptions): string {
  const rows = host.split("\n").map((line) => line.trim().split(/\s+/));
  const values = (keyword: string) => rows.filter((row) => row[0] === keyword);
  const own = values("nameserver").map((row) => row[1]).filter((address) =>
    address && (options.hostNetwork || !/^(127\.|::1$)/.test(address))
  );
  const { gateway } = options;
  const servers = options.servers ??
    (gateway ? [gateway, ...(options.internal ? [] : own)].slice(0, MOST_SERVERS) : own);
  // "." asks for no search list, as in docker.
  const search = (options.search ?? values("search").at(-1)?.slice(1) ?? []).filter((name) =>
    name !== "."
  );
  const extra = options.options ?? values("options").flatMap((row) => row.slice(1));
  return [
    ...servers.map((address) => `nameserver ${address}`),
    ...(search.length > 0 ? [`search ${search.join(" ")}`] : []),
    ...(extra.length > 0 ? [`options ${extra.join(" ")}`] : []),
  ].join("\n") + "\n";
}

/** The host's resolv.conf with servers that a network namespace can reach, where the host has one. */
export async function hostResolvConf(): Promise<string> {
  const text = await Deno.readTextFile("/etc/resolv.conf").catch(() => "");
  const onlyStub = /^nameserver\s+127\.0\.0\.53$/m.test(text);
  if (!onlyStub) return text;
  return await Deno.readTextFile("/run/systemd/resolve/resolv.conf").catch(() => text);
}

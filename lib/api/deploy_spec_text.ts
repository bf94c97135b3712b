/**
 * Texts of a deployment spec that are written into files of lines and lists. The patterns make sure that no
 * text can start another line, field or option.
 */
import { parseBytes } from "../base/bytes.ts";

/** A name that resolvers take: labels of letters, digits, '-' and '_'. */
export const HOST_NAME = /^(?=.{1,253}$)[a-z0-9_][a-z0-9_-]{0,62}(\.[a-z0-9_-]{1,63})*$/i;

/** What `search` of resolv.conf may name; "." is the root alone. */
export const SEARCH_DOMAIN =
  /^(\.|(?=.{1,253}$)[a-z0-9_][a-z0-9_-]{0,62}(\.[a-z0-9_-]{1,63})*\.?)$/i;

/** What `options` of resolv.conf may name: "ndots:2", "rotate". */
export const RESOLVER_OPTION = /^[a-z0-9-]+(:\d+)?$/i;

/** "net.ipv4.ip_forward"; without the slashes that could lead elsewhere below /proc/sys. */
export const SYSCTL = /^[a-z0-9_]+(\.[a-z0-9_-]+)+$/i;

export function isAddress(text: string): boolean {
  const four = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (four) return four.slice(1).every((part) => Number(part) < 256);
  return /^[0-9a-f:.]*:[0-9a-f:.]*$/i.test(text) && URL.canParse(`http://[${text}]/`);
}

/** True for names that every host has, or that engines give to their own host: no workload may use them. */
export function isReservedName(name: string): boolean {
  const lower = name.toLowerCase();
  return /^(.*\.)?localhost$|^ip6-/.test(lower) ||
    ["host.docker.internal", "gateway.docker.internal", "host.containers.internal"].includes(lower);
}

/** A file system in memory. */
export interface Tmpfs {
  target: string;
  readOnly: boolean;
  /** Bytes. */
  size?: number;
  /** Octal. */
  mode?: string;
  /** Further options, each in a known form. */
  options: string[];
}

const FLAGS =
  "exec noexec suid nosuid dev nodev atime noatime diratime nodiratime relatime strictatime sync async dirsync"
    .split(" ");

/** `/path[:option,…]`. Throws an Error that names the unknown option. */
export function parseTmpfs(text: string): Tmpfs {
  const [target, list = "", ...more] = text.split(":");
  if (!target.startsWith("/") || more.length > 0) throw new Error("expected /path[:option,…]");
  const tmpfs: Tmpfs = { target, readOnly: false, options: [] };
  for (const option of list.split(",").filter(Boolean)) {
    const [name, value = ""] = option.split(/=(.*)/s);
    if (option === "ro" || option === "rw") tmpfs.readOnly = option === "ro";
    else if (name === "size" && value !== "") tmpfs.size = parseBytes(value);
    else if (name === "mode" && /^[0-7]{1,4}$/.test(value)) tmpfs.mode = value;
    else if (FLAGS.includes(option) || /^(uid|gid|nr_inodes|nr_blocks)=\d+$/.test(option)) {
      tmpfs.options.push(option);
    } else throw new Error(`unknown option ${JSON.stringify(option)}`);
  }
  return tmpfs;
}

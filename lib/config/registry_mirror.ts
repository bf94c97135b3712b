/** The value of SVC_REGISTRY_MIRROR: one upstream for every repository, or several by prefix. */
import { invalid, registryHost } from "./checks.ts";

export interface MirrorUpstream {
  /** Repositories "prefix/rest" come from "rest" at this upstream. Absent: all other repositories. */
  prefix?: string;
  /** host[:port] */
  host: string;
  /** Absent: the client's default, https except on the loopback interface. */
  scheme?: "http" | "https";
}

const COMPONENT = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const PREFIX = new RegExp(`^${COMPONENT}(?:/${COMPONENT})*$`);

/**
 * Reads `UPSTREAM` and `PREFIX=UPSTREAM`, separated by commas, where UPSTREAM is `[scheme://]host[:port]`.
 * Throws `config_invalid` that names `source`.
 */
export function parseRegistryMirror(text: string, source: string): MirrorUpstream[] {
  const found: MirrorUpstream[] = [];
  for (const item of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const equals = item.indexOf("=");
    const prefix = equals < 0 ? undefined : item.slice(0, equals).trim();
    if (prefix !== undefined && !PREFIX.test(prefix)) {
      throw invalid(
        source,
        `${JSON.stringify(prefix)} cannot begin a repository's name`,
        "write PREFIX=[scheme://]host[:port], the prefix in lower case",
      );
    }
    if (found.some((other) => other.prefix === prefix)) {
      throw invalid(
        source,
        prefix === undefined ? "two upstreams have no prefix" : `${prefix}= stands there twice`,
        "give each upstream a prefix of its own",
      );
    }
    const upstream = registryHost(item.slice(equals + 1).trim().replace(/\/$/, ""), source);
    const [, scheme, host] = /^(?:(https?):\/\/)?(.*)$/.exec(upstream)!;
    found.push({
      ...(prefix !== undefined && { prefix }),
      host,
      ...(scheme && { scheme: scheme as "http" | "https" }),
    });
  }
  if (found.length === 0) throw invalid(source, "it names no upstream");
  return found;
}

/** A check for the option table: returns a valid text unchanged. */
export function registryMirror(text: string, source: string): string {
  parseRegistryMirror(text, source);
  return text;
}

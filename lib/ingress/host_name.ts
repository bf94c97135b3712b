/** Host names of ingress: what may stand in a spec, and what a request's `Host` says. */
import { SvcError } from "../base/errors.ts";

const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const MAX_NAME = 253;
/** What a name cannot have, and what `URL` would take for another part of an address. */
// deno-lint-ignore no-control-regex
const FOREIGN = /[\u0000-\u0020\u007f"#%/:<>?@[\\\]^`{|}]/;

/** Lower case and punycode; undefined for an invalid host name. IP addresses are invalid too. */
export function asciiHost(text: string): string | undefined {
  const name = text.endsWith(".") ? text.slice(0, -1) : text;
  if (name === "" || FOREIGN.test(name)) return undefined;
  const url = URL.canParse(`http://${name}`) ? new URL(`http://${name}`) : undefined;
  const ascii = url?.hostname;
  // URL converts all forms of IPv4 addresses: "0x7f.1" becomes 127.0.0.1.
  if (!ascii || ascii.length > MAX_NAME || /(?:^|\.)\d+$/.test(ascii)) return undefined;
  return ascii.split(".").every((label) => LABEL.test(label)) ? ascii : undefined;
}

/** A base domain; "*.example.com" means "example.com". Throws `code` naming `source`. */
export function baseDomain(
  text: string,
  source: string,
  code: "spec_invalid" | "config_invalid",
): string {
  const name = asciiHost(text.trim().replace(/^\*?\./, ""));
  if (name !== undefined) return name;
  throw new SvcError(
    code,
    `Cannot read ${source}: ${
      JSON.stringify(text)
    } is not a domain; expected one such as example.com`,
  );
}

/** True for the domain itself and names below it; a wildcard is compared without its "*.". */
export function isWithin(host: string, domain: string): boolean {
  const name = host.startsWith("*.") ? host.slice(2) : host;
  return name === domain || name.endsWith(`.${domain}`);
}

/**
 * The name in a `Host` field or a URL's authority, in lower case and without its port; undefined where it is
 * malformed. IP addresses pass: no route matches them.
 */
export function requestedHost(authority: string): string | undefined {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::\d{0,5})?$/.exec(authority);
  if (!match) return undefined;
  const name = match[1].toLowerCase();
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

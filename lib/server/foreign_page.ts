/**
 * A browser sends the origin of the page that asks. A page of another site must not reach a server on its
 * visitor's machine or network: without authentication it could build, deploy and exec there.
 */
import { SvcError } from "../base/errors.ts";
import { isLoopback, splitHost } from "./hosts.ts";

/** Whether a browser may know this server by a host name. */
export type IsOwnName = (name: string) => boolean;

export interface OwnNamesOptions {
  /** This machine's name. */
  hostname: string;
  /** Hosts, or addresses with a host, that the configuration advertises. */
  advertised: readonly (string | undefined)[];
}

/**
 * The check of host names for requests that need no credential. An attacker can let a domain resolve to the
 * address of somebody else's server; a page of that domain then has the same origin as the server. So a browser
 * must use a known name. IP addresses are accepted: nobody can let an address stand for another.
 */
export function ownNames({ hostname, advertised }: OwnNamesOptions): IsOwnName {
  const machine = hostname.toLowerCase();
  const [label] = machine.split(".");
  const names = new Set([machine, label, `${label}.local`]);
  for (const text of advertised) {
    if (text) names.add(splitHost(text.replace(/^[a-z]+:\/\//, "").replace(/\/.*$/, "")).name);
  }
  return (name) =>
    isLoopback(name) || /^\d+\.\d+\.\d+\.\d+$/.test(name) || name.includes(":") || names.has(name);
}

/** Programs on Node send `sec-fetch-mode` alone; browsers send these fields with it. */
const BROWSERS_ONLY = ["origin", "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user"];

/** A browser's GET of the page's own origin has no Origin field: other fields tell browsers from programs. */
function fromBrowser(headers: Headers): boolean {
  return BROWSERS_ONLY.some((name) => headers.has(name)) ||
    headers.get("user-agent")?.startsWith("Mozilla/") === true;
}

/**
 * Throws `denied` for a page of another site, and `misdirected` for a browser that uses a host name which is
 * not this server's. Absent `isOwnName`: every name is accepted, because the request has or needs a credential,
 * which pages of other sites do not have.
 */
export function refuseForeignPage(
  { headers }: Request,
  isOwnName: IsOwnName = () => true,
): void {
  const host = headers.get("host") ?? "";
  const origin = headers.get("origin");
  if (origin !== null && (!URL.canParse(origin) || host === "" || new URL(origin).host !== host)) {
    throw new SvcError("denied", `Cannot answer a page of ${origin}: it is from another site`, {
      help: "ask from the server's own pages, or from a program",
    });
  }
  if (!fromBrowser(headers)) return;
  const { name } = splitHost(host);
  if (isOwnName(name)) return;
  throw new SvcError(
    "misdirected",
    `Cannot answer a browser under ${JSON.stringify(host)}: it is not a name of this server`,
    {
      help:
        "use the server's address, set SVC_ADVERTISE_REGISTRY to the name, or set up authentication",
    },
  );
}

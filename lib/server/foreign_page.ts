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
  /** Hosts, or addresses with one, that the configuration says the server is known by. */
  advertised: readonly (string | undefined)[];
}

/**
 * For requests that need no credential. Whoever owns a domain can have its name stand for the address of
 * somebody else's machine, and then its pages are of the same origin as what answers there: so a name has
 * to be one that is known. Addresses are nobody's to give.
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

/** Of all Sec-Fetch fields programs on Node send the mode alone; browsers send these with it. */
const BROWSERS_ONLY = ["origin", "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user"];

/** A GET of a page's own origin carries none: what else browsers send tells it from a program's. */
function fromBrowser(headers: Headers): boolean {
  return BROWSERS_ONLY.some((name) => headers.has(name)) ||
    headers.get("user-agent")?.startsWith("Mozilla/") === true;
}

/**
 * Throws `denied` for a page of another site, `misdirected` for a browser that knows this server by a name
 * which is none of its own. Absent `isOwnName`: a credential is there, or asked for, which other pages have not.
 */
export function refuseForeignPage(
  { headers }: Request,
  isOwnName: IsOwnName = () => true,
): void {
  const host = headers.get("host") ?? "";
  const origin = headers.get("origin");
  if (origin !== null && (!URL.canParse(origin) || host === "" || new URL(origin).host !== host)) {
    throw new SvcError("denied", `Cannot answer a page of ${origin}: it is another site`, {
      help: "ask from the server's own pages, or from a program",
    });
  }
  if (!fromBrowser(headers)) return;
  const { name } = splitHost(host);
  if (isOwnName(name)) return;
  throw new SvcError(
    "misdirected",
    `Cannot answer a browser under ${JSON.stringify(host)}: it is no name of this server`,
    {
      help:
        "use the server's address, set SVC_ADVERTISE_REGISTRY to the name, or set up authentication",
    },
  );
}

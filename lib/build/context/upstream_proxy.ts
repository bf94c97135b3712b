/** The proxy that the server's own environment names for outgoing requests. */

/** A proxy of plain HTTP. */
export interface Upstream {
  hostname: string;
  port: number;
  authorization?: string;
}

const variable = (name: string) => Deno.env.get(name) || Deno.env.get(name.toUpperCase());

/** True where NO_PROXY lists the host: as a name, below a name, as an address, or by "*". */
function isException(host: string, list: string): boolean {
  return list.split(",").map((entry) => entry.trim().replace(/^\*?\./, "")).filter(Boolean)
    .some((entry) => entry === "*" || host === entry || host.endsWith(`.${entry}`));
}

/**
 * The proxy for a host: HTTPS_PROXY or HTTP_PROXY, else ALL_PROXY; undefined where none is set or NO_PROXY
 * lists the host.
 */
export function upstreamOf(secure: boolean, host: string): Upstream | undefined {
  const address = variable(secure ? "https_proxy" : "http_proxy") ?? variable("all_proxy");
  if (!address || isException(host, variable("no_proxy") ?? "")) return undefined;
  const url = new URL(/^\w+:\/\//.test(address) ? address : `http://${address}`);
  if (url.protocol !== "http:") return undefined;
  const credentials = [url.username, url.password].map(decodeURIComponent).join(":");
  return {
    hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: Number(url.port) || 80,
    ...url.username !== "" && { authorization: `Basic ${btoa(credentials)}` },
  };
}

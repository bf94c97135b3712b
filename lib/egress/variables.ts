/** Variables by which programs are told of a proxy. */
import { DEFAULT_EGRESS_PORT, type EgressSpec, PROXY_VARIABLES } from "../api/egress.ts";

/** Both spellings: programs read one or the other, and some read HTTP_PROXY in lower case only. */
function spelled(variables: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).flatMap(([name, value]) => [
      [name.toUpperCase(), value],
      [name.toLowerCase(), value],
    ]),
  );
}

const OWN = "localhost,127.0.0.1,::1";

/** What the workload is told of its egress; none where nothing has to be told. */
export function egressVariables(
  { mode, proxies = {}, listenPort = DEFAULT_EGRESS_PORT }: EgressSpec,
): Record<string, string> {
  if (mode === "env") return spelled(proxies);
  if (mode !== "proxy") return {};
  const proxy = `http://127.0.0.1:${listenPort}`;
  return spelled({ HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: OWN });
}

/** The caller's own proxy variables; the spelling in lower case wins, as with most programs. */
export function callersProxies(
  env: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  return Object.fromEntries(
    PROXY_VARIABLES.flatMap((name) => {
      const value = env[name.toLowerCase()] ?? env[name];
      return value ? [[name, value]] : [];
    }),
  );
}

/** Asks for the defaults of public tunnels where the server can open one. */
import type { ServerInfo } from "../../api/info.ts";
import type { Context } from "../../client/profile/types.ts";
import { type Ask, BACK, type Choice } from "./ask.ts";

const MODES: readonly Choice[] = [
  { value: "auto", label: "auto: as the public host is declared or not" },
  { value: "passthrough", label: "passthrough: the public host is a declared one" },
  { value: "alias", label: "alias: it is another name of one" },
  { value: "rewrite", label: "rewrite: the same, and workloads see their own" },
];

/** Undefined: back to the questions before. Asks nothing where the server cannot open a tunnel. */
export async function askTunnel(
  ask: Ask,
  info: Partial<ServerInfo>,
): Promise<Pick<Context, "tunnel"> | undefined> {
  // An older server does not report tunnels.
  const { backends = [] } = info.tunnels ?? {};
  if (backends.length === 0) return {};
  const file = await ask.text(
    `The server can make public tunnels (${
      backends.join(", ")
    }). File of your credential for them ` +
      "(empty: the server's own)",
  );
  if (file === BACK) return undefined;
  const mode = await ask.select("Host mode of tunnels to the ingress", MODES, "auto");
  if (mode === BACK) return await askTunnel(ask, info);
  const tunnel = {
    ...(file !== "" && { "authtoken-file": file }),
    ...(mode !== "auto" && { "ingress-host-mode": mode }),
  };
  return Object.keys(tunnel).length > 0 ? { tunnel } : {};
}

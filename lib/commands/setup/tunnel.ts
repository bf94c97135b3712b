/** Defaults of public tunnels: asked for where the server can make one. */
import type { ServerInfo } from "../../api/info.ts";
import type { Context } from "../../client/profile/types.ts";
import { type Ask, BACK } from "./ask.ts";

/** Undefined: back to the questions before. Nothing is asked of a server that can make no tunnel. */
export async function askTunnel(
  ask: Ask,
  info: Partial<ServerInfo>,
): Promise<Pick<Context, "tunnel"> | undefined> {
  // An older server says nothing of them.
  const { backends = [] } = info.tunnels ?? {};
  if (backends.length === 0) return {};
  const file = await ask.text(
    `The server can make public tunnels (${
      backends.join(", ")
    }). File of your credential for them ` +
      "(empty: the server's own)",
  );
  if (file === BACK) return undefined;
  return file === "" ? {} : { tunnel: { "authtoken-file": file } };
}

/** From a command's values to its client. */
import { type Client, createClient } from "../client/client.ts";
import type { Invocation } from "./command.ts";

const PROXY_VARIABLES = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

export async function connect(
  invocation: Pick<Invocation, "values" | "io" | "env">,
): Promise<Client> {
  const { server, token } = invocation.values;
  const proxied = PROXY_VARIABLES.some((name) => invocation.env[name]);
  return await Promise.resolve(
    createClient({ server, token, signal: invocation.io.signal, proxied }),
  );
}

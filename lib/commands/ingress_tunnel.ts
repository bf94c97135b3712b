/** `svc ingress-tunnel`: the deployments' ingress at a public URL or at a port of this machine. */
import type { HostMode } from "../api/tunnel.ts";
import { SvcError } from "../base/errors.ts";
import { splitHostPort } from "../base/host_port.ts";
import type { Client } from "../client/client.ts";
import { openLocalIngress } from "../client/ingress_tunnel.ts";
import { holdTunnel } from "../client/tunnels.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import { showTunnel } from "./tunnel.ts";
import { tunnelCredential } from "./tunnel/credential.ts";
import type { INGRESS_TUNNEL_OPTIONS } from "./tunnel_options.ts";

type IngressInvocation = Invocation<typeof INGRESS_TUNNEL_OPTIONS>;

interface Aim {
  hostMode?: HostMode;
  host?: string;
}

function parseLocal(text: string): { address: string; port: number } {
  const { host = "127.0.0.1", port } = splitHostPort(/^\d+$/.test(text) ? `:${text}` : text) ?? {};
  if (port !== undefined) return { address: host === "localhost" ? "127.0.0.1" : host, port };
  throw new SvcError("usage", `Cannot read --local ${JSON.stringify(text)}: expected [HOST:]PORT`);
}

async function showLocal(
  { io, values }: IngressInvocation,
  client: Client,
  aim: Aim,
  { address, port }: ReturnType<typeof parseLocal>,
): Promise<number> {
  await using local = await openLocalIngress(client, {
    ...{ ...aim, address, port },
    // Errors that come from the command's own end are not failures.
    onError: (error) => {
      if (!io.signal.aborted) void io.stderr.write(`svc: ${error.message}\n`);
    },
  });
  const url = `http://${address.includes(":") ? `[${address}]` : address}:${local.local}`;
  await io.stdout.write(
    values.output === "json" ? `${JSON.stringify({ type: "opened", url })}\n` : `${url}\n`,
  );
  if (!io.signal.aborted) {
    await new Promise((resolve) => io.signal.addEventListener("abort", resolve, { once: true }));
  }
  return 0;
}

export async function run(invocation: IngressInvocation): Promise<number> {
  const { io, values } = invocation;
  const { backend, host } = values;
  const local = values.local === undefined ? undefined : parseLocal(values.local);
  const { client, target } = await openConnection(invocation);
  // Both values are valid: the flag has choices, the profile is checked when it is read.
  const hostMode = (values.hostMode ?? target.settings.tunnel?.["ingress-host-mode"]) as
    | HostMode
    | undefined;
  const aim: Aim = {
    ...(hostMode !== undefined && { hostMode }),
    ...(host !== undefined && { host }),
  };
  if (local) return await showLocal(invocation, client, aim, local);
  const credential = await tunnelCredential(invocation, target);
  io.signal.throwIfAborted();
  return await showTunnel(
    invocation,
    holdTunnel(client, {
      ingress: aim,
      ...(backend !== undefined && { backend }),
      ...(credential !== undefined && { credential }),
    }),
  );
}

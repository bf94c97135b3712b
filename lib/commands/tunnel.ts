/** `svc tunnel NAME[:PORT]`: a public URL of a deployment, until interrupted. */
import type { DeploymentStatus } from "../api/deployment.ts";
import type { TunnelProtocol } from "../api/tunnel.ts";
import { SvcError } from "../base/errors.ts";
import { getDeployment } from "../client/deployments.ts";
import { type HeldTunnelEvent, holdTunnel } from "../client/tunnels.ts";
import type { Invocation } from "./command.ts";
import { openConnection } from "./connect.ts";
import { tunnelCredential } from "./tunnel/credential.ts";
import type { TUNNEL_OPTIONS } from "./tunnel_options.ts";

function parseAim(word: string): { name: string; port?: number } {
  const found = /^([^:]+)(?::(\d{1,5}))?$/.exec(word);
  const port = found?.[2] === undefined ? undefined : Number(found[2]);
  if (!found || port !== undefined && (port < 1 || port > 65535)) {
    throw new SvcError(
      "usage",
      `Cannot open a tunnel to ${JSON.stringify(word)}: expected NAME[:PORT]`,
      {
        help: "name a deployment and a port inside it, such as web:8080",
      },
    );
  }
  return { name: found[1], ...(port !== undefined && { port }) };
}

/** The one port that the deployment declares. */
function onlyPort({ name, ports }: DeploymentStatus): number {
  const found = new Set(
    ports.filter(({ protocol }) => protocol === "tcp").map(({ container }) => container),
  );
  if (found.size === 1) return [...found][0];
  const why = found.size === 0 ? "it declares no port" : `it declares ${[...found].join(", ")}`;
  throw new SvcError("argument_invalid", `Cannot open a tunnel to ${name}: ${why}`, {
    help: `name the port, such as ${name}:${found.size === 0 ? 8080 : [...found][0]}`,
  });
}

/** Shows the events of a tunnel; resolves when the tunnel has ended, also by an interruption. */
export async function showTunnel(
  { io, values }: Pick<Invocation, "io" | "values">,
  events: AsyncIterable<HeldTunnelEvent>,
): Promise<number> {
  const json = values.output === "json";
  let shown: string | undefined;
  const show = async (url: string) => {
    if (!json && url !== shown) await io.stdout.write(`${url}\n`);
    shown = url;
  };
  try {
    for await (const event of events) {
      if (json) await io.stdout.write(`${JSON.stringify(event)}\n`);
      if (event.type === "opened") {
        await show(event.tunnel.url);
        if (!json) await io.stderr.write("svc: the tunnel is open until this command ends\n");
      } else if (event.type === "up") {
        await io.stderr.write("svc: the tunnel is up again\n");
        await show(event.url);
      } else if (event.type === "down") {
        await io.stderr.write(`svc: the tunnel is down, and tried again: ${event.reason}\n`);
      } else await io.stderr.write("svc: the tunnel was closed\n");
    }
  } catch (error) {
    if (!io.signal.aborted) throw error;
  }
  return 0;
}

export async function run(invocation: Invocation<typeof TUNNEL_OPTIONS>): Promise<number> {
  const { io, values, positionals: [word] } = invocation;
  const { name, port } = parseAim(word);
  const { client, target } = await openConnection(invocation);
  const credential = await tunnelCredential(invocation, target);
  const body = {
    deployment: name,
    port: port ?? onlyPort(await getDeployment(client, name)),
    protocol: values.protocol as TunnelProtocol,
    ...(values.backend !== undefined && { backend: values.backend }),
    ...(credential !== undefined && { credential }),
  };
  io.signal.throwIfAborted();
  return await showTunnel(invocation, holdTunnel(client, body));
}

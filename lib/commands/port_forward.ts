/** `svc port-forward NAME [PORT...]`: forwards local ports to a deployment's ports until interrupted. */
import type { DeploymentStatus } from "../api/deployment.ts";
import type { ForwardProtocol } from "../api/forward.ts";
import { asSvcError, SvcError } from "../base/errors.ts";
import type { PortForward } from "../client/conduit/port_forward.ts";
import type { Services } from "../client/conduit/services.ts";
import { getDeployment } from "../client/deployments.ts";
import { servicesOf } from "../client/forward.ts";
import type { Invocation } from "./command.ts";
import { connect } from "./connect.ts";
import { errorLines } from "./dispatch.ts";
import type { PORT_FORWARD_OPTIONS } from "./forward_options.ts";
import { formatInstances } from "./ps.ts";

/** A port as the command line gives it. */
export interface WantedPort {
  /** Absent: the addresses of --address. */
  address?: string;
  /** 0: a free one. */
  local: number;
  remote: number;
  protocol: ForwardProtocol;
  /** True where any free port will do if `local` is not available. */
  orFree?: boolean;
}

const PORT = /^(?:(?:\[([^\]]+)\]|([^:[\]]+)):)??(?:(\d*):)?(\d+)(?:\/(tcp|udp))?$/;

/** `[[ADDRESS:]LOCAL:]REMOTE[/udp]`; an empty LOCAL is a free port. Throws `usage`. */
export function parseWanted(text: string): WantedPort {
  const found = PORT.exec(text);
  const refuse = (why: string) =>
    new SvcError("usage", `Cannot forward ${JSON.stringify(text)}: ${why}`, {
      help: "write a port as 8080:80, :80 for a free local port, or 53/udp",
    });
  if (!found) throw refuse("expected [[ADDRESS:]LOCAL:]REMOTE[/udp]");
  const [, bracketed, plain, local, remote, protocol = "tcp"] = found;
  const ports = [local || (local === "" ? "0" : remote), remote].map(Number);
  if (ports.some((port) => port > 65535) || ports[1] === 0) {
    throw refuse("a port is a number from 1 to 65535");
  }
  return {
    ...((bracketed ?? plain) !== undefined && { address: bracketed ?? plain }),
    local: ports[0],
    remote: ports[1],
    protocol: protocol as ForwardProtocol,
  };
}

/** All ports that the deployment declares, without duplicates. Throws where it declares none. */
export function declaredPorts(status: DeploymentStatus): WantedPort[] {
  const found = new Map<string, WantedPort>();
  for (const { container, protocol } of [...status.ports, ...status.exposed ?? []]) {
    // SCTP cannot be forwarded.
    if (protocol === "sctp") continue;
    const key = `${container}/${protocol}`;
    found.set(key, { local: container, remote: container, protocol, orFree: true });
  }
  if (found.size > 0) return [...found.values()];
  const { name } = status;
  if (formatInstances(status).startsWith("0/")) {
    throw new SvcError("conflict", `Cannot forward ports of ${name}: no instance runs`, {
      help: `start it: svc start ${name}`,
    });
  }
  throw new SvcError("argument_invalid", `Cannot forward ports of ${name}: it declares none`, {
    help: `name one, such as svc port-forward ${name} 8080:80`,
  });
}

interface Listener extends PortForward {
  address: string;
  wanted: WantedPort;
}

class Listeners implements AsyncDisposable {
  readonly #invocation: Invocation<typeof PORT_FORWARD_OPTIONS>;
  readonly #services: Services;
  readonly #open = new AsyncDisposableStack();

  constructor(invocation: Invocation<typeof PORT_FORWARD_OPTIONS>, services: Services) {
    this.#invocation = invocation;
    this.#services = services;
  }

  async #listen(address: string, wanted: WantedPort, local: number): Promise<Listener> {
    const { forwardPort } = await import("../client/conduit/port_forward.ts");
    const { io, positionals: [name] } = this.#invocation;
    const opened = this.#open.use(
      await forwardPort({
        services: this.#services,
        name,
        port: wanted.remote,
        protocol: wanted.protocol,
        address,
        local,
        // Errors that come from the command's own end are not failures.
        onError: (error) => {
          if (!io.signal.aborted) void io.stderr.write(errorLines(asSvcError(error)));
        },
      }),
    );
    return { ...opened, address, wanted };
  }

  async #orFree(address: string, wanted: WantedPort): Promise<Listener> {
    try {
      return await this.#listen(address, wanted, wanted.local);
    } catch (error) {
      if (!wanted.orFree || !(error instanceof SvcError)) throw error;
      await this.#invocation.io.stderr.write(
        `svc: ${error.message}; a free port takes its place\n`,
      );
      return await this.#listen(address, wanted, 0);
    }
  }

  async add(wanted: WantedPort): Promise<Listener[]> {
    const { address = [] } = this.#invocation.values;
    const named = wanted.address !== undefined ? [wanted.address] : address;
    const listeners: Listener[] = [];
    for (const name of named.length > 0 ? named : ["127.0.0.1"]) {
      if (name !== "localhost") {
        listeners.push(await this.#orFree(name, wanted));
        continue;
      }
      const first = await this.#orFree("127.0.0.1", wanted);
      listeners.push(first);
      try {
        listeners.push(await this.#listen("::1", wanted, first.local));
      } catch {
        // The machine has no IPv6, or the port is taken on it: one address family is enough, as with kubectl.
      }
    }
    return listeners;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#open[Symbol.asyncDispose]();
  }
}

export async function run(invocation: Invocation<typeof PORT_FORWARD_OPTIONS>): Promise<number> {
  const { io, values, positionals: [name, ...words] } = invocation;
  const named = words.map(parseWanted);
  const client = await connect(invocation);
  const status = await getDeployment(client, name);
  await using listeners = new Listeners(invocation, servicesOf(client));
  const opened: Listener[] = [];
  for (const wanted of named.length > 0 ? named : declaredPorts(status)) {
    opened.push(...await listeners.add(wanted));
  }
  const { shownAddress } = await import("../client/conduit/port_forward.ts");
  for (const { address, local, wanted: { remote, protocol } } of opened) {
    const line = values.output === "json"
      ? JSON.stringify({ name, address, local, remote, protocol })
      : `Forwarding from ${shownAddress(address, local)} -> ${remote}` +
        (protocol === "udp" ? "/udp" : "");
    await io.stdout.write(`${line}\n`);
  }
  if (!io.signal.aborted) {
    await new Promise((resolve) => io.signal.addEventListener("abort", resolve, { once: true }));
  }
  return 0;
}

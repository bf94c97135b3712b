/** Ingress of the cluster itself (mode `native`): its controller's Service, forwarded to this machine. */
import type { Socket } from "node:net";
import { SvcError } from "../../base/errors.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { socketDuplex } from "../../wire/socket_duplex.ts";
import { openKubeApi } from "../kube/api.ts";
import {
  type ControllerChoice,
  findController,
  parseController,
} from "../kube/ingress_controller.ts";
import { kubeDialer } from "../kube/port_forward.ts";
import type { Dialer } from "../transport/dialer.ts";
import type { Ingress, IngressOptions, IngressPorts, PreparedIngress } from "./ingress.ts";
import { LOOPBACK } from "./ingress_listen.ts";
import { forwardPort, type PortForward } from "./port_forward.ts";
import { sparingly } from "./told.ts";

/** The profile's choice goes before the server's, and the server's before a Service that is found. */
async function choiceOf(
  { settings: { controller = {} }, controller: ofServer }: IngressOptions,
): Promise<ControllerChoice> {
  const { namespace, service, "http-port": httpPort, "https-port": httpsPort } = controller;
  const own = {
    ...(namespace !== undefined && { namespace }),
    ...(service !== undefined && { service }),
    ...(httpPort !== undefined && { httpPort }),
    ...(httpsPort !== undefined && { httpsPort }),
  };
  if (namespace !== undefined || service !== undefined) return own;
  const told = await ofServer?.();
  return { ...(told !== undefined && parseController(told)), ...own };
}

/** A connection through the port-forward. */
async function dial(dialer: Dialer, signal?: AbortSignal): Promise<Duplex> {
  const stream = await dialer.dial();
  const duplex = { ...socketDuplex(stream as Socket), reset: () => void stream.destroy() };
  if (!signal?.aborted) return duplex;
  duplex.reset();
  throw signal.reason;
}

async function listen(
  dialer: Dialer,
  where: { service: string; port: number },
  preferred: number,
  onError: (error: SvcError) => void,
): Promise<PortForward> {
  const services = {
    dial: (_name: string, _port: number, _protocol: string, signal?: AbortSignal) =>
      dial(dialer, signal),
    list: () => Promise.resolve([]),
  };
  const at = (local: number) =>
    forwardPort({
      ...{ services, name: where.service, port: where.port, protocol: "tcp" },
      ...{ address: LOOPBACK, local, onError },
    });
  try {
    return await at(preferred);
  } catch (error) {
    // Where the port is taken or not permitted for this user, any free one.
    if (preferred !== 0 && error instanceof SvcError) return await at(0);
    throw error;
  }
}

/**
 * The kube context, undefined for the current one. Throws `config_invalid` where the profile has no cluster.
 */
export function requireCluster(
  { controller, cluster }: Pick<IngressOptions, "cluster"> & {
    controller: IngressOptions["settings"]["controller"];
  },
): string | undefined {
  const context = controller?.["kube-context"] ?? cluster?.["kube-context"];
  if (cluster || context !== undefined) return context;
  throw new SvcError(
    "config_invalid",
    "Cannot use conduit.ingress.mode native: the profile reaches its server without a cluster",
    {
      help:
        "name the cluster in conduit.ingress.controller.kube-context, or set the mode to emulate",
    },
  );
}

/** Throws `config_invalid` for a profile without a cluster, `not_found` for one without a controller. */
export async function prepareNative(options: IngressOptions): Promise<PreparedIngress> {
  const { settings: { controller }, cluster, env, signal, warn } = options;
  const context = requireCluster({ controller, cluster });
  await using api = await openKubeApi(context, env, signal);
  const found = await findController(api, await choiceOf(options));
  const { namespace, service } = found;
  const tell = sparingly(warn);
  return {
    async open(_routes, _services, ports: IngressPorts): Promise<Ingress> {
      await using opened = new AsyncDisposableStack();
      const address: { http?: string; https?: string } = {};
      for (const scheme of ["http", "https"] as const) {
        const port = found[`${scheme}Port`];
        if (port === undefined) continue;
        const forward = { "kube-context": context, namespace, service, "remote-port": port };
        const dialer = opened.use(await kubeDialer({ settings: forward, env, signal }));
        const local = opened.use(
          await listen(
            dialer,
            { service, port },
            ports[scheme],
            ({ message }) => tell(scheme, message),
          ),
        );
        address[scheme] = `${LOOPBACK}:${local.local}`;
      }
      const kept = opened.move();
      return { address, [Symbol.asyncDispose]: () => kept.disposeAsync() };
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

/** The server's ingress at a local port. */
import type { HostMode } from "../api/tunnel.ts";
import type { SvcError } from "../base/errors.ts";
import type { YamuxSession } from "../wire/yamux/session.ts";
import type { Client } from "./client.ts";
import type { PortForward } from "./conduit/port_forward.ts";
import { openYamux } from "./yamux_socket.ts";

export interface LocalIngressOptions {
  hostMode?: HostMode;
  host?: string;
  address: string;
  /** 0: a free one. */
  port: number;
  /** Told why a connection was not made, or broke; the others go on. */
  onError: (error: SvcError) => void;
}

/** Throws what the server refuses. A session that breaks is opened anew by the next connection. */
export async function openLocalIngress(
  client: Client,
  { hostMode, host, address, port, onError }: LocalIngressOptions,
): Promise<PortForward> {
  const query = new URLSearchParams({
    ...(hostMode !== undefined && { hostMode }),
    ...(host !== undefined && { host }),
  });
  let current: Promise<YamuxSession> | undefined;
  const session = () => current ??= open();
  const open = async () => {
    try {
      const opened = await openYamux(client, `/ingress/tunnel${query.size > 0 ? `?${query}` : ""}`);
      void opened.closed.then(() => current = undefined);
      return opened;
    } catch (error) {
      current = undefined;
      throw error;
    }
  };
  await session();
  const { forwardPort } = await import("./conduit/port_forward.ts");
  try {
    const forward = await forwardPort({
      services: {
        dial: async () => (await session()).open(),
        list: () => Promise.resolve([]),
      },
      ...{ name: "ingress", port: 80, protocol: "tcp", address, local: port, onError },
    });
    return {
      local: forward.local,
      async [Symbol.asyncDispose]() {
        await forward[Symbol.asyncDispose]();
        (await current?.catch(() => undefined))?.[Symbol.dispose]();
      },
    };
  } catch (error) {
    (await session().catch(() => undefined))?.[Symbol.dispose]();
    throw error;
  }
}

/** The server's ingress on a local port. */
import type { HostMode } from "../api/tunnel.ts";
import type { SvcError } from "../base/errors.ts";
import type { Attached } from "../wire/attached/session.ts";
import { attach } from "./attached/attach.ts";
import type { Client } from "./client.ts";
import type { PortForward } from "./conduit/port_forward.ts";

export interface LocalIngressOptions {
  hostMode?: HostMode;
  host?: string;
  address: string;
  /** 0: a free one. */
  port: number;
  /** Called with the reason when a connection cannot be made or breaks; other connections continue. */
  onError: (error: SvcError) => void;
}

/** Throws what the server refuses. After a session has broken, the next connection opens a new one. */
export async function openLocalIngress(
  client: Client,
  { hostMode, host, address, port, onError }: LocalIngressOptions,
): Promise<PortForward> {
  const query = new URLSearchParams({
    ...(hostMode !== undefined && { hostMode }),
    ...(host !== undefined && { host }),
  });
  let current: Promise<Attached> | undefined;
  const session = () => current ??= open();
  const open = async () => {
    try {
      const attempt = "use the tunnel to the ingress";
      const opened = await attach(client, "/ingress/tunnel", { attempt, query });
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
        dial: async () => (await session()).open("ingress"),
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

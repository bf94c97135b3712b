/** A direct TCP connection to the server's address. */
import { connect } from "node:net";
import { SvcError, systemCode } from "../../base/errors.ts";
import type { Dialer } from "./dialer.ts";

const REASONS: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "there is no host of that name",
  EHOSTUNREACH: "no route to the host",
  ENETUNREACH: "no route to its network",
  ETIMEDOUT: "the host does not answer",
};

export function tcpDialer(server: string): Dialer {
  const { hostname, port, protocol } = new URL(server);
  const host = hostname.replace(/^\[|\]$/g, "");
  return {
    resumes: false,
    async dial() {
      const socket = connect({ host, port: Number(port || (protocol === "https:" ? 443 : 80)) });
      const ended = Promise.withResolvers<void>();
      socket.once("connect", ended.resolve);
      socket.once("error", ended.reject);
      try {
        await ended.promise;
      } catch (cause) {
        const why = REASONS[systemCode(cause) ?? ""] ?? (cause as Error).message;
        throw new SvcError("server_unreachable", `Cannot reach ${server}: ${why}`, { cause });
      }
      socket.setNoDelay(true);
      return socket;
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

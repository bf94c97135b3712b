/** Connections out from this machine, and what a client is answered where one fails. */
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { type ErrorCode, SvcError, systemCode } from "../../base/errors.ts";
import { connDuplex, type Duplex } from "../duplex.ts";
import { REPLY, type Reply } from "./protocol.ts";

interface Reason {
  code: ErrorCode;
  reply: Reply;
  words: string;
}

const REASONS: Record<string, Reason> = {
  ECONNREFUSED: { code: "upstream_failed", reply: REPLY.refused, words: "connection refused" },
  ENETUNREACH: {
    code: "upstream_failed",
    reply: REPLY.networkUnreachable,
    words: "no route to its network",
  },
  EHOSTUNREACH: {
    code: "upstream_failed",
    reply: REPLY.hostUnreachable,
    words: "no route to the host",
  },
  ETIMEDOUT: { code: "timeout", reply: REPLY.timedOut, words: "the host does not answer" },
  EACCES: { code: "denied", reply: REPLY.notAllowed, words: "this machine does not allow it" },
  EPERM: { code: "denied", reply: REPLY.notAllowed, words: "this machine does not allow it" },
  ENOTFOUND: {
    code: "not_found",
    reply: REPLY.hostUnreachable,
    words: "there is no host of that name",
  },
  EAI_AGAIN: {
    code: "upstream_failed",
    reply: REPLY.hostUnreachable,
    words: "its name cannot be looked up now",
  },
};

/** The reply to each error that services and rules throw. */
const CODES: Partial<Record<ErrorCode, Reply>> = {
  not_found: REPLY.hostUnreachable,
  // No instance runs.
  conflict: REPLY.hostUnreachable,
  upstream_failed: REPLY.refused,
  denied: REPLY.notAllowed,
  unauthorized: REPLY.notAllowed,
  timeout: REPLY.timedOut,
};

const replies = new WeakMap<SvcError, Reply>();

/** The reply for a connection that could not be made. */
export function replyOf(error: unknown): Reply {
  if (!(error instanceof SvcError)) return REPLY.failed;
  return replies.get(error) ?? CODES[error.code] ?? REPLY.failed;
}

/** The resolver's code for a name that does not resolve: Deno has no error class for it. */
async function nameCode(host: string): Promise<string | undefined> {
  if (isIP(host) !== 0) return undefined;
  try {
    await lookup(host);
    return undefined;
  } catch (error) {
    return systemCode(error) ?? "ENOTFOUND";
  }
}

/**
 * A TCP connection, the addresses of a name tried side by side (RFC 8305). Throws why it failed; `signal`
 * ends the attempt.
 */
export async function dialDirect(host: string, port: number, signal: AbortSignal): Promise<Duplex> {
  try {
    const conn = await Deno.connect({ hostname: host, port, signal });
    conn.setNoDelay(true);
    // Without keep-alive an idle connection to a machine that is gone would stay open for ever.
    conn.setKeepAlive(true);
    return connDuplex(conn);
  } catch (cause) {
    signal.throwIfAborted();
    const code = systemCode(cause) ?? await nameCode(host);
    const reason = REASONS[code ?? ""];
    const where = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    const error = new SvcError(
      reason?.code ?? "upstream_failed",
      `Cannot connect to ${where}: ${reason?.words ?? (cause as Error).message}`,
      { cause },
    );
    replies.set(error, reason?.reply ?? REPLY.failed);
    throw error;
  }
}

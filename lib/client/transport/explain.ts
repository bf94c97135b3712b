/**
 * Finds out why a server cannot be reached directly, by trying the steps one by one: fetch reports one word.
 */
import type { Duplex } from "node:stream";
import { SvcError } from "../../base/errors.ts";
import type { Dialer } from "./dialer.ts";
import { tcpDialer } from "./tcp.ts";

/** Milliseconds that the search for a better explanation may take. */
const PATIENCE_MS = 2000;

/** A dialer whose streams are collected in `open`, so that none outlives the attempt. */
function kept(inner: Dialer, open: Duplex[]): Dialer {
  return {
    ...inner,
    async dial() {
      const stream = await inner.dial();
      stream.on("error", () => {/* the attempt that reads it tells */});
      open.push(stream);
      return stream;
    },
  };
}

async function speaksTls(
  dialer: Dialer,
  server: string,
  help: string,
): Promise<SvcError | undefined> {
  const { peerCertificate } = await import("./tls.ts");
  const secure = await peerCertificate(dialer, server).then(() => true, () => false);
  if (!secure) return undefined;
  return new SvcError("server_unreachable", `Cannot reach ${server}: it speaks TLS`, { help });
}

async function explain(server: string, dialer: Dialer): Promise<SvcError | undefined> {
  try {
    if (server.startsWith("https:")) {
      const { tlsDialer } = await import("./tls.ts");
      await (await tlsDialer({ inner: dialer, settings: {}, server })).dial();
      return undefined;
    }
    await dialer.dial();
  } catch (error) {
    return error instanceof SvcError ? error : undefined;
  }
  return await speaksTls(dialer, server, "write the server as https://");
}

/** Gives up after `patienceMs` and destroys all streams. */
async function attempt(
  inner: Dialer,
  patienceMs: number,
  what: (dialer: Dialer) => Promise<SvcError | undefined>,
): Promise<SvcError | undefined> {
  const open: Duplex[] = [];
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), patienceMs);
  try {
    return await Promise.race([what(kept(inner, open)), late.promise]);
  } finally {
    clearTimeout(timer);
    for (const stream of open) stream.destroy();
  }
}

/** undefined where the server can be reached by now, or no reason was found in time. */
export function explainDirect(
  server: string,
  patienceMs = PATIENCE_MS,
): Promise<SvcError | undefined> {
  return attempt(tcpDialer(server), patienceMs, (dialer) => explain(server, dialer));
}

/** As {@linkcode explainDirect}, for a server behind a working tunnel that was called without TLS. */
export function explainTunneled(
  tunnel: Dialer,
  server: string,
  help: string,
  patienceMs = PATIENCE_MS,
): Promise<SvcError | undefined> {
  return attempt(tunnel, patienceMs, (dialer) => speaksTls(dialer, server, help));
}

/** Binding, serving and ending: the steps between a composed server and its process. */
import type { Logger } from "../base/log.ts";
import { formatAddress, type ListenAddress } from "../config/address.ts";
import { type Access, openAccess } from "./access.ts";
import type { Answered } from "./activity/entry.ts";
import { isLoopback } from "./hosts.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { IsOwnName } from "./foreign_page.ts";
import type { TlsFiles } from "./http/tls.ts";
import { listen, type Listener } from "./listener.ts";
import type { RefusePeer } from "./own_networks.ts";
import type { Route } from "./route.ts";
import { Router } from "./router.ts";
import { createHandler } from "./server.ts";

export interface StartOptions {
  address: ListenAddress;
  routes: readonly Route[];
  access: Access;
  lifecycle: Lifecycle;
  log: Logger;
  /** Absent: plain HTTP. */
  tls?: TlsFiles;
  /** Absent: every host name is accepted from browsers. */
  isOwnName?: IsOwnName;
  /** Absent: no peer is refused for its address. */
  refusePeer?: RefusePeer;
  /** Called with each request that a route answered. */
  note?: (answered: Answered) => void;
}

/** Binds and answers; `lifecycle.serving()` makes it ready. Throws `address_in_use` or `config_invalid`. */
export async function startServer(options: StartOptions): Promise<Listener> {
  const { address, routes, access, lifecycle, log, tls, note, isOwnName, refusePeer } = options;
  const router = new Router(routes);
  const handler = createHandler({
    router,
    access,
    lifecycle,
    log,
    note,
    isOwnName,
    refusePeer,
  });
  const label = formatAddress(address);
  const onRefused = (open: number) =>
    log.warn("new connections are closed: the limit of open files is reached", { open });
  const listener = await listen({ ...address, label, tls: tls?.material, onRefused }, handler);
  if (access === openAccess && (address.hostname === undefined || !isLoopback(label))) {
    log.warn(
      `anyone who reaches ${label} may build, deploy and run commands here: no authentication is configured`,
      { help: "set SVC_AUTH_TOKEN, or listen on this machine alone with SVC_ADDR=127.0.0.1:5000" },
    );
  }
  tls?.follow((material) => listener.setTls?.(material));
  return listener;
}

export interface StopOptions {
  /** Milliseconds that requests in flight have. */
  graceMs: number;
  /** Cuts the grace short. */
  hurry: AbortSignal;
  log: Logger;
}

/**
 * Ends the server. Readiness turns off at once, new requests are refused, and requests in flight have the grace
 * to end. The port stays bound until then: whoever watches readiness sees 503, not a refused connection.
 */
export async function stopServer(
  listener: Listener,
  lifecycle: Lifecycle,
  { graceMs, hurry, log }: StopOptions,
): Promise<void> {
  lifecycle.drain();
  if (lifecycle.inFlight > 0) {
    log.info("finishing requests in flight", { requests: lifecycle.inFlight });
  }
  const hurried = Promise.withResolvers<false>();
  hurry.addEventListener("abort", () => hurried.resolve(false), { once: true });
  if (hurry.aborted) hurried.resolve(false);
  const idle = await Promise.race([lifecycle.idle(graceMs), hurried.promise]);
  if (idle) {
    // Idle connections close with this. It could still hang, so the wait is bounded.
    const closed = listener.shutdown();
    const timer = Promise.withResolvers<void>();
    const id = setTimeout(timer.resolve, 1000);
    await Promise.race([closed, timer.promise, hurried.promise]);
    clearTimeout(id);
    return;
  }
  log.warn("cut off requests in flight", { requests: lifecycle.inFlight });
  // Not awaited: a handler that does not return must not keep the process.
  listener.close().catch(() => {/* it is going away */});
}

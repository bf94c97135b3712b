/** A server from its start to its end. */
import { formatAddress } from "../config/address.ts";
import type { Given } from "./given.ts";
import { openSubsystems } from "./subsystem.ts";
import { address, mode } from "./registry_parts.ts";
import { edge, SUBSYSTEMS } from "./subsystems.ts";

/** Serves until it is told to stop. Its parts are closed in reverse order, however it ends. */
export async function runServer(given: Given): Promise<void> {
  const { log, lifecycle, host, chosen, stop } = given;
  await using server = await openSubsystems(SUBSYSTEMS, { ...given });
  const registryMode = server.handle(mode);
  const bound = formatAddress(server.handle(address).bound);
  lifecycle.serving();
  log.info(`listening on ${bound}${server.handle(edge).tls ? " with TLS" : ""}`, {
    dataDir: host.dataDir,
    registry: registryMode,
    ...(registryMode !== "host-native" && { storage: chosen.storage.shown }),
    backend: chosen.deploy.name,
  });
  if (!stop.first.aborted) {
    await new Promise((end) => stop.first.addEventListener("abort", end, { once: true }));
  }
  log.info("shutting down", { reason: stop.first.reason.message });
  // First of all, so that readiness turns off before any part closes.
  lifecycle.drain();
}

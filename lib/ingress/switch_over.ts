/** A connection after "101 Switching Protocols": bytes in both directions, unparsed. */
import type { Duplex } from "../wire/duplex.ts";
import { relay } from "../wire/relay.ts";
import { Deadline } from "./deadline.ts";
import type { Side } from "./side.ts";

/**
 * Resolves when both directions have ended, or when one has ended and the other was silent for `idleMs`. Then
 * both streams are ended. While both directions are open they may be silent without limit.
 */
export async function switchOver(client: Side, workload: Side, idleMs: number): Promise<void> {
  const quiet = new Deadline();
  let half = false;
  const touch = () => {
    if (half) quiet.set(idleMs, () => client.end());
  };
  const watched = (side: Side): Duplex => {
    const rest = side.rest();
    return {
      ...rest,
      async read() {
        const bytes = await rest.read();
        if (!bytes) half = true;
        touch();
        return bytes;
      },
    };
  };
  try {
    await relay(watched(client), watched(workload));
  } catch {
    // The connection broke: nothing more can be sent on either stream.
  } finally {
    quiet.end();
  }
}

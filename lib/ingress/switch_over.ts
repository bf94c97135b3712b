/** A connection after "101 Switching Protocols": bytes both ways, whatever they mean. */
import type { Duplex } from "../wire/duplex.ts";
import { relay } from "../wire/relay.ts";
import { Deadline } from "./deadline.ts";
import type { Side } from "./side.ts";

/**
 * Until both have ended, or one has and nothing came of the other for `idleMs`. Both are at their end then.
 * While both are open they may be silent for as long as they like.
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
    // It was cut: there is nothing more to say to either.
  } finally {
    quiet.end();
  }
}

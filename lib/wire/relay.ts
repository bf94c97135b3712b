/** Joins two byte streams: bytes of one are written to the other; each direction ends by itself. */
import type { Duplex } from "./duplex.ts";

/**
 * Resolves when both directions have ended; throws the first error, after passing on the bytes that came before
 * it. Both streams are reset in any case. Resetting one of them ends the relay. `onBytes` is called when bytes
 * pass.
 */
export async function relay(a: Duplex, b: Duplex, onBytes?: () => void): Promise<void> {
  let failure: { error: unknown } | undefined;
  const fail = (error: unknown) => failure ??= { error };
  const reset = () => {
    a.reset(failure?.error);
    b.reset(failure?.error);
  };
  const pump = async (from: Duplex, to: Duplex) => {
    for (;;) {
      let chunk: Uint8Array | undefined;
      try {
        chunk = await from.read();
      } catch (error) {
        fail(error);
        return reset();
      }
      try {
        if (chunk === undefined) return await to.closeWrite();
        onBytes?.();
        await to.write(chunk);
      } catch (error) {
        // The reader is gone, but its own last bytes are still passed on: its end follows soon.
        return void fail(error);
      }
    }
  };
  const there = pump(a, b);
  const back = pump(b, a);
  let over = false;
  // After a stream's end nobody reads it, and perhaps nobody writes to it: only `closed` tells more.
  const watch = async ({ closed }: Duplex, readToEnd: Promise<void>) => {
    if (!closed) return;
    const [why] = await Promise.all([closed, readToEnd]);
    if (over) return;
    fail(why);
    reset();
  };
  void watch(a, there);
  void watch(b, back);
  await Promise.all([there, back]);
  over = true;
  // Both directions have ended: both streams are released.
  reset();
  if (failure?.error !== undefined) throw failure.error;
}

/** Two byte streams joined: what one gives, the other takes, and each direction ends by itself. */
import type { Duplex } from "./duplex.ts";

/**
 * Resolves when both directions have ended, and throws what broke first; what had been given until then
 * was passed on. Both streams are reset then, in any case. Resetting one of them ends the relay.
 * `onBytes` is told that something passes.
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
      if (chunk === undefined) return await to.closeWrite();
      onBytes?.();
      try {
        await to.write(chunk);
      } catch (error) {
        // It takes nothing any more. What it said before that is still passed on: its end comes soon.
        return void fail(error);
      }
    }
  };
  const there = pump(a, b);
  const back = pump(b, a);
  let over = false;
  // Nobody reads a stream that has ended, and nobody may have anything to write to it: it tells itself.
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
  // What ended in both directions is let go of.
  reset();
  if (failure?.error !== undefined) throw failure.error;
}

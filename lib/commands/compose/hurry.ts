/** Stopping after an interrupt: a second one kills. */

/** Calls `stop(false)`, and `stop(true)` once `hurry` aborts; resolves when either is done. */
export async function stopHeeding(
  hurry: AbortSignal | undefined,
  stop: (hurry: boolean) => Promise<void>,
): Promise<void> {
  if (hurry?.aborted) return await stop(true);
  const kill = Promise.withResolvers<void>();
  const listen = () => kill.resolve(stop(true));
  hurry?.addEventListener("abort", listen, { once: true });
  try {
    await Promise.race([stop(false), kill.promise]);
  } finally {
    hurry?.removeEventListener("abort", listen);
  }
}

/** Runs work on many items with bounded parallelism. */

/** After a failure, also one of `items`, no more work begins; running work is awaited. */
export async function eachOf<T>(
  items: Iterable<T> | AsyncIterable<T>,
  parallel: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let failure: { error: unknown } | undefined;
  let free = () => {};
  try {
    for await (const item of items) {
      const run = work(item).catch((error) => {
        failure ??= { error };
      }).finally(() => {
        running.delete(run);
        free();
      });
      running.add(run);
      // Not Promise.race: each race would stay with the slowest work, as long as that runs.
      if (running.size === parallel) await new Promise<void>((resolve) => free = resolve);
      if (failure) break;
    }
  } finally {
    await Promise.all(running);
  }
  if (failure) throw failure.error;
}

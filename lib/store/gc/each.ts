/** Work on many items, some at a time. */

/** After a failure no more begin; those begun are awaited. */
export async function eachOf<T>(items: T[], parallel: number, work: (item: T) => Promise<void>) {
  let next = 0;
  let failure: { error: unknown } | undefined;
  const run = async () => {
    while (next < items.length && !failure) {
      await work(items[next++]).catch((error) => failure ??= { error });
    }
  };
  await Promise.all(Array.from({ length: Math.min(parallel, items.length) }, run));
  if (failure) throw failure.error;
}

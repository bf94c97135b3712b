/** Runs work items a few at a time. */

/** Results in the order of the items. The first failure keeps further items from starting, and is thrown. */
export async function inOrder<T, R>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results = new Array<R>(items.length);
  const next = items.entries();
  let failed = false;
  const lane = async () => {
    for (const [index, item] of next) {
      if (failed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const lanes = await Promise.allSettled(Array.from({ length: atOnce }, lane));
  for (const one of lanes) if (one.status === "rejected") throw one.reason;
  return results;
}

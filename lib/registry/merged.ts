/** Merges two listings in byte order of their keys. Of entries with the same key, the first listing's counts. */
export async function* merged<T>(
  one: AsyncIterable<T>,
  other: AsyncIterable<T>,
  keyOf: (item: T) => string,
): AsyncGenerator<T> {
  const iterators = [one[Symbol.asyncIterator](), other[Symbol.asyncIterator]()];
  try {
    let [a, b] = await Promise.all(iterators.map((iterator) => iterator.next()));
    while (!a.done || !b.done) {
      const first = b.done || !a.done && keyOf(a.value) <= keyOf(b.value) ? a.value : b.value;
      yield first;
      const key = keyOf(first);
      if (!a.done && keyOf(a.value) === key) a = await iterators[0].next();
      if (!b.done && keyOf(b.value) === key) b = await iterators[1].next();
    }
  } finally {
    await Promise.all(iterators.map((iterator) => iterator.return?.()));
  }
}

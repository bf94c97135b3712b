/** Values made on first use. */

export interface Lazy<T> {
  /**
   * Makes the value at the first call, and then returns it. A failure is not kept: the next call tries again.
   */
  get: () => Promise<T>;
  /** The value made or being made; does not make it. */
  made: () => Promise<T> | undefined;
}

export function lazy<T>(make: () => Promise<T>): Lazy<T> {
  let value: Promise<T> | undefined;
  return {
    get: () =>
      value ??= make().catch((error) => {
        value = undefined;
        throw error;
      }),
    made: () => value,
  };
}

/** Values made on first use. */

export interface Lazy<T> {
  /** Makes it, or gives what was made. A failure is not kept: the next call tries again. */
  get: () => Promise<T>;
  /** What was made or is being made; makes nothing. */
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

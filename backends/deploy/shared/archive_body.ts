/** An archive that a caller sends into a container. */

/**
 * Runs `work`, which takes the archive by `open`. The archive ends with the signal, and at the end of the work: what
 * was not taken is cancelled. Throws the signal's reason where it has aborted.
 */
export async function withArchive(
  tar: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
  work: (open: () => ReadableStream<Uint8Array>) => Promise<void>,
): Promise<void> {
  const over = new AbortController();
  const until = AbortSignal.any([over.signal, ...signal ? [signal] : []]);
  try {
    await work(() => tar.pipeThrough(new TransformStream(), { signal: until }));
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    over.abort();
    if (!tar.locked) await tar.cancel().catch(() => {/* it failed already */});
  }
}

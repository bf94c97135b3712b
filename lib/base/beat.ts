/**
 * Calls `act` each so many milliseconds, until what this returns is called; does not keep the process alive.
 * With its first setInterval Deno loads node's timers, which takes a client as long as a short call does.
 */
export function every(ms: number, act: () => void): () => void {
  let beat: (() => void) | undefined = () => {
    arm();
    act();
  };
  const arm = () => AbortSignal.timeout(ms).addEventListener("abort", () => beat?.());
  arm();
  // The timer that is left over keeps nothing alive.
  return () => beat = undefined;
}

/** Lets everything else that is ready have its turn; as {@linkcode every}, without a timer. */
export async function breathe(): Promise<void> {
  await Deno.lstat(".");
}

/**
 * Calls `act` every `ms` milliseconds until the returned function is called. Does not keep the process alive.
 * Not setInterval: its first use loads node's timers, which takes as long as a client's short call.
 */
export function every(ms: number, act: () => void): () => void {
  let beat: (() => void) | undefined = () => {
    arm();
    act();
  };
  const arm = () => AbortSignal.timeout(ms).addEventListener("abort", () => beat?.());
  arm();
  // The pending timer stays, but does not keep the process alive.
  return () => beat = undefined;
}

/** Lets other ready work run; like {@linkcode every}, without node's timers. */
export async function breathe(): Promise<void> {
  await Deno.lstat(".");
}

/** Limits messages that strangers cause: the same message is not repeated within ten seconds. */

const AGAIN_MS = 10_000;
/** Keys that are remembered. */
const MOST = 256;

/** Passes `text` on unless a text with the same `key` was passed on in the last ten seconds. */
export function sparingly(
  warn: (text: string) => void,
  now: () => number = () => performance.now(),
): (key: string, text: string) => void {
  const said = new Map<string, number>();
  return (key, text) => {
    const at = now();
    const last = said.get(key);
    if (last !== undefined && at - last < AGAIN_MS) return;
    // The newest key stands last: the oldest one is dropped.
    said.delete(key);
    said.set(key, at);
    if (said.size > MOST) said.delete(said.keys().next().value!);
    warn(text);
  };
}

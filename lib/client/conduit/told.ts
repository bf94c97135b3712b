/** Lines for a person from what strangers cause: the same one is not said again and again. */

const AGAIN_MS = 10_000;
/** Keys that are remembered. */
const MOST = 256;

/** Says `text` unless one with the same `key` was said in the last ten seconds. */
export function sparingly(
  warn: (text: string) => void,
  now: () => number = () => performance.now(),
): (key: string, text: string) => void {
  const said = new Map<string, number>();
  return (key, text) => {
    const at = now();
    const last = said.get(key);
    if (last !== undefined && at - last < AGAIN_MS) return;
    // The newest stands last: what goes is the oldest.
    said.delete(key);
    said.set(key, at);
    if (said.size > MOST) said.delete(said.keys().next().value!);
    warn(text);
  };
}

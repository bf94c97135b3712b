/** How the main process of an instance ended: Incus does not tell it, the log of LXC does. */
import type { IncusClient } from "../../../lib/incus/client.ts";

/** Exit codes above this one are of signals. */
const SIGNALS = 128;
/** The code is unknown. */
const UNKNOWN = 255;
/** Bytes of a log that are read. */
const MAX_LOG = 4 * 1024 ** 2;

/** The exit code that the log of one run tells. */
export function exitCodeOf(log: string): number {
  const [, how, number] =
    [...log.matchAll(/Child <\d+> ended on (error|signal) \((\d+)\)/g)].at(-1) ??
      [];
  if (how) return Number(number) + (how === "signal" ? SIGNALS : 0);
  // LXC writes no line about success.
  return / INFO /.test(log) ? 0 : UNKNOWN;
}

export async function readExitCode(client: IncusClient, name: string): Promise<number> {
  try {
    const { body } = await client.raw({
      path: `/instances/${name}/logs/lxc.log`,
      attempted: `Cannot read how ${name} ended`,
    });
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of body) text = (text + decoder.decode(bytes)).slice(-MAX_LOG);
    return exitCodeOf(text);
  } catch {
    return UNKNOWN; // there is no log, or no instance any more
  }
}

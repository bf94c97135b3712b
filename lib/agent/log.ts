/** The agent's log: servers' words are in it, so it has a bound, and each line. */

/** Bytes after which it is begun again, and characters of a line. */
const MOST = 1 << 20;
const LINE = 4000;

export interface AgentLog extends Disposable {
  (text: string): void;
}

/** Opens the log, which other agents may write to, for its user alone. */
export async function openLog(path: string): Promise<AgentLog> {
  const file = await Deno.open(path, { append: true, create: true, mode: 0o600 });
  const encoder = new TextEncoder();
  const log = (text: string) => {
    if (file.statSync().size >= MOST) file.truncateSync();
    const line = text.replaceAll("\n", "\n  ").slice(0, LINE);
    file.writeSync(encoder.encode(`${new Date().toISOString()} ${Deno.pid} ${line}\n`));
  };
  return Object.assign(log, { [Symbol.dispose]: () => file.close() });
}

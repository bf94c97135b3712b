/** The server's log: to standard error, in batches. */
import { batchedLines, createLogger, LOG_LEVELS, type Logger } from "../base/log.ts";
import { PROCESS } from "../config/server/general.ts";
import type { Settings } from "../config/table.ts";

/** `flush` writes buffered lines at once; call it before the process ends. */
export function openServerLog(
  settings: Settings,
  stderr: typeof Deno.stderr,
): { log: Logger; flush: () => void } {
  const { logLevel } = settings.of(PROCESS);
  const writer = batchedLines(stderr);
  const log = createLogger({
    level: LOG_LEVELS.find((level) => level === logLevel) ?? "info",
    format: stderr.isTerminal() ? "text" : "json",
    write: writer.write,
  });
  return { log, flush: () => writer.flush() };
}

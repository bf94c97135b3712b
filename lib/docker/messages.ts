/** Answers that are one JSON object after another: events, the progress of pulls, loads and builds. */
import { SvcError, tellsFullDisk } from "../base/errors.ts";
import { FULL_HELP } from "./errors.ts";

/** Characters of one object. */
const MAX_MESSAGE = 4 * 1024 ** 2;

/** The objects as they come. Throws `upstream_failed` for what is no JSON. */
export async function* readMessages<T>(
  body: ReadableStream<Uint8Array>,
  attempted: string,
): AsyncGenerator<T> {
  const parse = (line: string): T => {
    try {
      return JSON.parse(line) as T;
    } catch (cause) {
      throw new SvcError("upstream_failed", `${attempted}: the daemon sent what is no JSON`, {
        cause,
      });
    }
  };
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) if (line.trim() !== "") yield parse(line);
    if (rest.length > MAX_MESSAGE) {
      throw new SvcError("upstream_failed", `${attempted}: the daemon sent a line without an end`);
    }
  }
  if (rest.trim() !== "") yield parse(rest);
}

/** What the daemon tells while it pulls, loads or builds. */
export interface ProgressMessage {
  status?: string;
  id?: string;
  stream?: string;
  progressDetail?: { current?: number; total?: number };
  error?: string;
  errorDetail?: { message?: string };
  aux?: unknown;
}

/** Reads progress to its end. Throws `upstream_failed` with the daemon's words where it tells an error. */
export async function readProgress(
  body: ReadableStream<Uint8Array>,
  attempted: string,
  onMessage: (message: ProgressMessage) => void = () => {},
): Promise<void> {
  for await (const message of readMessages<ProgressMessage>(body, attempted)) {
    const error = message.errorDetail?.message ?? message.error;
    if (error !== undefined) {
      const full = tellsFullDisk(error);
      throw new SvcError(full ? "storage_full" : "upstream_failed", `${attempted}: ${error}`, {
        help: full ? FULL_HELP : "see the daemon's words above",
      });
    }
    onMessage(message);
  }
}

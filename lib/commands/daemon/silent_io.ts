/** The streams of a command for what runs without a terminal. */
import type { Io, Output } from "../../base/terminal.ts";

/** What would go to standard error goes to `notice`, line by line without svc's name; the rest is dropped. */
export function silentIo(signal: AbortSignal, notice: (text: string) => void): Io {
  const output = (take: (text: string) => void): Output => ({
    write: (data) => {
      const text = typeof data === "string" ? data : new TextDecoder().decode(data);
      for (const line of text.split("\n")) if (line.trim() !== "") take(line.replace(/^svc: /, ""));
      return Promise.resolve();
    },
    isTerminal: false,
    size: () => undefined,
  });
  return {
    stdin: { readable: ReadableStream.from<Uint8Array>([]), isTerminal: false },
    stdout: output(() => {}),
    stderr: output(notice),
    signal,
  };
}

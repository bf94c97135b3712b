/** The terminal of a command whose process runs elsewhere. */
import type { Io } from "../base/terminal.ts";
import type { Terminal } from "../client/exec.ts";

/** Exit code for a failure of svc itself after the process was reached. */
export const TOOL_FAILED = 125;

/** The terminal that shows a remote process. */
export const terminalOf = ({ stdout, stderr, onResize }: Io): Terminal => ({
  size: () => stdout.size() ?? stderr.size(),
  onResize: (listener) => onResize?.(listener) ?? (() => {}),
});

/** Makes the terminal of standard input raw from the command's start until it is disposed of. */
export class RawInput implements Disposable {
  #restore?: () => void;
  #over = false;

  constructor(private readonly stdin: Io["stdin"]) {}

  async start(): Promise<void> {
    const restore = await this.stdin.raw?.();
    if (this.#over) restore?.();
    else this.#restore = restore;
  }

  [Symbol.dispose](): void {
    this.#over = true;
    this.#restore?.();
  }
}

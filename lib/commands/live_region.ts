/** Lines at the bottom of the screen that are redrawn in place. */
import { styleText } from "node:util";
import { asIs, type Output, type TerminalSize } from "../base/terminal.ts";
import { fit, widthOf } from "./build/region.ts";

export const HIDE_CURSOR = "\x1b[?25l";
export const SHOW_CURSOR = "\x1b[?25h";

/**
 * Moves to the first row of a region and clears it; `drawn`: widths of its lines. On a terminal that became
 * narrower, a line takes several rows.
 */
export function clearRegion(drawn: readonly number[], columns: number): string {
  const rows = drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
  return rows > 0 ? `\x1b[${rows}A\r\x1b[J` : "";
}

/** A piece of a line; escape sequences in its text are taken out, those of its style are not. */
export interface Span {
  text: string;
  style?: Parameters<typeof styleText>[0];
}

/** The pieces side by side, cut to `columns`; and the columns that they take. */
function joined(line: string | readonly Span[], columns: number): { text: string; width: number } {
  let [text, width] = ["", 0];
  for (const span of typeof line === "string" ? [{ text: line } as Span] : line) {
    const cut = fit(span.text, columns - width);
    width += widthOf(cut);
    text += span.style && cut ? styleText(span.style, cut, { validateStream: false }) : cut;
  }
  return { text, width };
}

export class LiveRegion implements AsyncDisposable {
  readonly #out: Output;
  #drawn: number[] = [];
  #hidden = false;
  /** The last known size, used while a terminal reports 0x0. */
  #size: TerminalSize = { columns: 80, rows: 24 };
  #writing: Promise<void> = Promise.resolve();

  constructor(out: Output) {
    this.#out = out;
  }

  get size(): TerminalSize {
    return this.#size = this.#out.size() ?? this.#size;
  }

  /** Replaces the lines. They are cut to the terminal; where it has too few rows, the last ones are left out. */
  draw(lines: readonly (string | readonly Span[])[]): void {
    const { columns, rows } = this.size;
    const shown = lines.slice(0, Math.max(1, rows - 1)).map((line) => joined(line, columns));
    const text = (this.#hidden ? "" : HIDE_CURSOR) + clearRegion(this.#drawn, columns) +
      shown.map(({ text }) => `${text}\n`).join("");
    this.#hidden = true;
    this.#drawn = shown.map(({ width }) => width);
    this.#writing = this.#out.write(asIs(text));
    this.#writing.catch(() => {/* told when the region ends */});
  }

  /** Leaves the last lines on the screen and shows the cursor again. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#hidden) await this.#out.write(asIs(SHOW_CURSOR)).catch(() => {/* told below */});
    await this.#writing;
  }
}

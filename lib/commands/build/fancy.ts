/** Progress on a terminal: finished vertices scroll up, running ones are redrawn in place below them. */
import { styleText } from "node:util";
import type { BuildEvent } from "../../api/build.ts";
import { asIs, type Output, type TerminalSize } from "../../base/terminal.ts";
import { fit, heading, type Line, regionLines, widthOf, withTime } from "./region.ts";
import { clearRegion, HIDE_CURSOR, SHOW_CURSOR } from "../live_region.ts";
import { type BuildProgress, seconds, type Vertex, warningText } from "./progress.ts";

export interface FancyOptions {
  intervalMs?: number;
  /** False where the environment says NO_COLOR. */
  colour?: boolean;
}

export class FancyProgress implements AsyncDisposable {
  readonly #state: BuildProgress;
  readonly #out: Output;
  readonly #colour: boolean;
  /** Width in columns of each line of the live region on the screen. */
  #drawn: number[] = [];
  #pending = "";
  /** The last known size, used while a terminal reports 0x0. */
  #size: TerminalSize = { columns: 80, rows: 24 };
  #hidden = false;
  #timer: ReturnType<typeof setInterval>;
  #writing: Promise<void> = Promise.resolve();

  constructor(
    state: BuildProgress,
    out: Output,
    { intervalMs = 100, colour = true }: FancyOptions = {},
  ) {
    this.#state = state;
    this.#out = out;
    this.#colour = colour;
    this.#timer = setInterval(() => this.draw(), intervalMs);
  }

  event(event: BuildEvent): void {
    const { vertex } = this.#state.apply(event);
    if (event.type === "warning") {
      this.#pending += this.#style("yellow", fit(warningText(event), 500)) + "\n";
    } else if (vertex && ["cached", "done", "failed"].includes(event.type)) {
      this.#pending += this.#closed(vertex) + "\n";
    }
  }

  #style(format: "blue" | "red" | "yellow" | "gray" | "bold", text: string): string {
    return this.#colour ? styleText(format, text, { validateStream: false }) : text;
  }

  #terminal(): TerminalSize {
    return this.#size = this.#out.size() ?? this.#size;
  }

  #closed(vertex: Vertex): string {
    const { columns } = this.#terminal();
    const [mark, colour] = vertex.state === "cached"
      ? ["CACHED ", "blue"] as const
      : vertex.state === "failed"
      ? ["ERROR ", "red"] as const
      : ["", "blue"] as const;
    const time = seconds(vertex.durationMs ?? 0);
    return this.#style(colour, withTime(` => ${mark}${vertex.name}`, time, columns));
  }

  #shown({ text, style }: Line): string {
    return (style === "plain" ? text : this.#style(style, text)) + "\n";
  }

  #ending(): string {
    if (this.#state.vertices.size === 0) return "";
    const how = this.#state.result ? " FINISHED" : this.#state.failed ? " FAILED" : "";
    return this.#style("bold", fit(heading(this.#state, how), this.#size.columns)) + "\n";
  }

  /** Writes finished lines above the region, then redraws the region. */
  draw(last = false): void {
    const size = this.#terminal();
    const region = last ? [] : regionLines(this.#state, size);
    let text = clearRegion(this.#drawn, size.columns) + this.#pending;
    text += region.map((line) => this.#shown(line)).join("");
    this.#drawn = region.map((line) => widthOf(line.text));
    this.#pending = "";
    if (last) text += this.#ending() + SHOW_CURSOR;
    else if (!this.#hidden && region.length > 0) {
      this.#hidden = true;
      text = HIDE_CURSOR + text;
    }
    if (text === "") return;
    this.#writing = this.#out.write(asIs(text)).catch(() => {
      // The terminal is gone; the build continues unwatched.
    });
  }

  /** Removes the region, keeps the finished lines, and shows the cursor again. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.draw(true);
    await this.#writing;
  }
}

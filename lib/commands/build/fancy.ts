/** Progress on a terminal: what is done scrolls up, what runs is redrawn in place below it. */
import { styleText } from "node:util";
import type { BuildEvent } from "../../api/build.ts";
import { formatBytes } from "../../base/bytes.ts";
import type { Output, TerminalSize } from "../../base/terminal.ts";
import { type BuildState, seconds, type Vertex } from "./state.ts";

/** Lines of output shown under a running step. */
const SHOWN = 4;
const HIDE_CURSOR = "\x1b[?25l";
const SHOW_CURSOR = "\x1b[?25h";

// deno-lint-ignore no-control-regex -- what would move the cursor or colour the region
const ESCAPES = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b./g;
// deno-lint-ignore no-control-regex -- the other characters a terminal obeys
const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;

/** Cut to `columns`; wide characters count twice, so that no line ever wraps. */
export function fit(text: string, columns: number): string {
  const clean = text.replace(ESCAPES, "").replaceAll("\t", "    ").replace(CONTROL, "");
  let width = 0, end = 0;
  for (const char of clean) {
    width += char.codePointAt(0)! >= 0x1100 ? 2 : 1;
    if (width > columns) return clean.slice(0, end);
    end += char.length;
  }
  return clean;
}

function withTime(left: string, time: string, columns: number): string {
  const room = columns - time.length - 2;
  return room < 10 ? fit(left, columns) : `${fit(left, room).padEnd(room)} ${time}`;
}

export class FancyProgress implements AsyncDisposable {
  readonly #state: BuildState;
  readonly #out: Output;
  /** Lines of the live region that stand on the screen. */
  #drawn = 0;
  #pending = "";
  #timer: ReturnType<typeof setInterval>;
  #writing: Promise<void> = Promise.resolve();

  constructor(state: BuildState, out: Output, intervalMs = 100) {
    this.#state = state;
    this.#out = out;
    this.#timer = setInterval(() => this.draw(), intervalMs);
  }

  event(event: BuildEvent): void {
    const { vertex } = this.#state.apply(event);
    if (event.type === "warning") {
      const place = event.line ? `line ${event.line}: ` : "";
      this.#pending += styleText("yellow", `WARNING: ${fit(place + event.message, 500)}`, {
        validateStream: false,
      }) + "\n";
    } else if (vertex && ["cached", "done", "failed"].includes(event.type)) {
      this.#pending += this.#closed(vertex) + "\n";
    }
  }

  #columns(): TerminalSize {
    return this.#out.size() ?? { columns: 80, rows: 24 };
  }

  #closed(vertex: Vertex): string {
    const { columns } = this.#columns();
    const [mark, colour] = vertex.state === "cached"
      ? ["CACHED ", "blue"] as const
      : vertex.state === "failed"
      ? ["ERROR ", "red"] as const
      : ["", "blue"] as const;
    const line = withTime(` => ${mark}${vertex.name}`, seconds(vertex.durationMs ?? 0), columns);
    return styleText(colour, line, { validateStream: false });
  }

  #running(vertex: Vertex, columns: number): string[] {
    const since = this.#state.now() - (vertex.startedAt ?? this.#state.now());
    const lines = [withTime(` => ${vertex.name}`, seconds(since), columns)];
    const { progress } = vertex;
    if (progress) {
      const total = progress.total ? ` / ${formatBytes(progress.total)}` : "";
      const amount = `${formatBytes(progress.current)}${total}`;
      lines.push(fit(` => => ${progress.label} ${amount}`, columns));
    }
    const tail = vertex.tail.slice(-SHOWN).map((line) => fit(` => => # ${line}`, columns));
    return [...lines, ...tail.map((line) => styleText("gray", line, { validateStream: false }))];
  }

  #region(): string[] {
    const { columns, rows } = this.#columns();
    const all = [...this.#state.vertices.values()];
    const over = all.filter((v) => v.state !== "known" && v.state !== "running").length;
    const running = all.filter((v) => v.state === "running");
    const head = styleText("bold", fit(`[+] Building (${over}/${all.length})`, columns), {
      validateStream: false,
    });
    const lines = running.flatMap((vertex) => this.#running(vertex, columns));
    return [head, ...lines.slice(0, Math.max(0, rows - 2))];
  }

  /** Puts what is done above the region and draws the region anew. */
  draw(last = false): void {
    const clear = this.#drawn > 0 ? `\x1b[${this.#drawn}A\r\x1b[J` : "";
    const region = last ? [] : this.#region();
    const begin = this.#drawn === 0 && !last ? HIDE_CURSOR : "";
    const text = begin + clear + this.#pending + region.map((line) => line + "\n").join("");
    this.#drawn = region.length;
    this.#pending = "";
    this.#writing = this.#out.write(last ? text + SHOW_CURSOR : text).catch(() => {
      // The terminal is gone; the build goes on without being watched.
    });
  }

  /** Takes the region away, leaves what is done, and gives the cursor back. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.draw(true);
    await this.#writing;
  }
}

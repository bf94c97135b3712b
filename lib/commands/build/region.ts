/** The live region of the screen: running steps with their time, progress and last output. */
import { formatBytes } from "../../base/bytes.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import { type BuildProgress, queuedText, seconds, type Vertex } from "./progress.ts";

/** Lines of output shown under a running step, where there is room. */
const SHOWN = 4;
/** Transfers shown under a step. */
const TRANSFERS = 4;
/** With fewer rows there is no room to redraw anything in place. */
const FEWEST_ROWS = 3;

export interface Line {
  text: string;
  style: "bold" | "plain" | "gray";
}

// deno-lint-ignore no-control-regex -- what would move the cursor or colour the region
const ESCAPES = /\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b./g;
// deno-lint-ignore no-control-regex -- the other characters a terminal obeys
const CONTROL = /[\x00-\x1f\x7f-\x9f]/g;

/** Beyond this most characters take two columns; those of {@linkcode NARROW}, which progress is drawn with, take one. */
const WIDE = 0x1100;
const NARROW = /[\u2010-\u2027\u2500-\u259f\u2714\u2718\u2800-\u28ff]/;

/** Columns that a text takes; wide characters count twice. */
export function widthOf(text: string): number {
  let width = 0;
  for (const char of text) width += char.codePointAt(0)! >= WIDE && !NARROW.test(char) ? 2 : 1;
  return width;
}

/** Cut to `columns`, so that no line ever wraps. */
export function fit(text: string, columns: number): string {
  const clean = text.replace(ESCAPES, "").replaceAll("\t", "    ").replace(CONTROL, "");
  let width = 0, end = 0;
  for (const char of clean) {
    width += widthOf(char);
    if (width > columns) return clean.slice(0, end);
    end += char.length;
  }
  return clean;
}

/** The text at the left and the time at the right edge; on a narrow terminal only the text. */
export function withTime(left: string, time: string, columns: number): string {
  const room = columns - time.length - 2;
  if (room < 10) return fit(left, columns);
  const cut = fit(left, room);
  return `${cut}${" ".repeat(room - widthOf(cut))} ${time}`;
}

const isOver = ({ state }: Vertex) => state !== "known" && state !== "running";

/** "[+] Building 2.5s (3/7)". */
export function heading(state: BuildProgress, end = ""): string {
  const all = [...state.vertices.values()];
  const over = all.filter(isOver).length;
  return `[+] Building ${seconds(state.now() - state.begun)} (${over}/${all.length})${end}`;
}

function transfers({ transfers }: Vertex, columns: number): Line[] {
  return [...transfers].slice(-TRANSFERS).map(([label, { current, total }]) => {
    const amount = formatBytes(current) + (total ? ` / ${formatBytes(total)}` : "");
    return { text: fit(` => => ${label} ${amount}`, columns), style: "plain" };
  });
}

function output({ tail }: Vertex, columns: number): Line[] {
  return tail.slice(-SHOWN).map((line) => ({
    text: fit(` => => # ${line}`, columns),
    style: "gray",
  }));
}

/**
 * The lines of the region. Every running step gets one line before any gets a second; the remaining rows go to
 * transfers and output in turn, so that no step hides another. Empty where the terminal has too few rows.
 */
export function regionLines(state: BuildProgress, { columns, rows }: TerminalSize): Line[] {
  if (rows < FEWEST_ROWS) return [];
  const running = [...state.vertices.values()].filter((vertex) => vertex.state === "running");
  // The cursor needs a line below the region.
  const room = rows - 2;
  const hidden = Math.max(0, running.length - room);
  const shown = running.slice(0, hidden > 0 ? room - 1 : room);
  let left = room - shown.length - (hidden > 0 ? 1 : 0);
  const details = shown.map((
    vertex,
  ) => [...transfers(vertex, columns), ...output(vertex, columns)]);
  const given = shown.map(() => 0);
  for (let more = true; more && left > 0;) {
    more = false;
    for (const [at, lines] of details.entries()) {
      if (left === 0 || given[at] === lines.length) continue;
      given[at]++;
      left--;
      more = true;
    }
  }
  const lines: Line[] = [{ text: fit(heading(state), columns), style: "bold" }];
  if (state.queued !== undefined) {
    lines.push({ text: fit(` => ${queuedText(state.queued)}`, columns), style: "plain" });
  }
  for (const [at, vertex] of shown.entries()) {
    const since = state.now() - (vertex.startedAt ?? state.now());
    lines.push({ text: withTime(` => ${vertex.name}`, seconds(since), columns), style: "plain" });
    // The newest lines of a step are shown.
    if (given[at] > 0) lines.push(...details[at].slice(-given[at]));
  }
  if (hidden > 0) {
    lines.push({
      text: fit(` => and ${running.length - shown.length} more steps`, columns),
      style: "gray",
    });
  }
  return lines;
}

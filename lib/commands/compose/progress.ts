/** The progress of work on a project: moving lines on a terminal, lines elsewhere, or JSON. */
import type { Io } from "../../base/terminal.ts";
import type { Step } from "../../compose/steps.ts";
import { fit, widthOf } from "../build/region.ts";
import { LiveRegion, type Span } from "../live_region.ts";
import { decimalSize } from "./human.ts";
import type { ProjectInvocation } from "./open_project.ts";

export interface Progress extends AsyncDisposable {
  step(step: Step): void;
}

type Values = ProjectInvocation["values"];

/** Whether colours and moving lines are used on an output. */
export function isLively(values: Pick<Values, "ansi">, isTerminal: boolean): boolean {
  if (values.ansi === "always") return true;
  return values.ansi !== "never" && isTerminal;
}

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const TICK_MS = 100;

interface Row extends Step {
  begun: number;
  /** Milliseconds; absent: it goes on. */
  took?: number;
}

const MARKS: Record<NonNullable<Step["end"]>, { mark: string; style: Span["style"] }> = {
  done: { mark: "✔", style: "green" },
  warning: { mark: "!", style: ["yellow", "bold"] },
  error: { mark: "✘", style: ["red", "bold"] },
};

const keyOf = ({ id, parent = "" }: Step) => `${parent} ${id}`;

/** From nothing to all. */
const PARTS = "⠀⡀⣀⣄⣤⣦⣶⣷⣿";

const bytesOf = ({ current = -1, total = 0, end }: Step) =>
  end || current < 0 ? "" : `${decimalSize(current, 4)}/${decimalSize(total, 4)}`;

/** A bar of a sign for each part, and their bytes, once all are known. */
function sumOf(parts: readonly Step[]): { bar: string; bytes: string } {
  const shares = parts.map(({ current = 0, total = 0 }) => current > 0 ? current / total : 0);
  const bar = `[${shares.map((share) => PARTS[Math.floor(share * (PARTS.length - 1))]).join("")}]`;
  if (parts.some(({ current = -1 }) => current < 0)) return { bar, bytes: " " };
  const sum = (key: "current" | "total") =>
    decimalSize(parts.reduce((all, part) => all + (part[key] ?? 0), 0), 4);
  return { bar, bytes: ` ${sum("current").padStart(7)} / ${sum("total").padEnd(7)} ` };
}

/** What docker compose shows: "[+] Running 1/2", and below it each part with its state and its time. */
class MovingLines implements Progress {
  readonly #region: LiveRegion;
  readonly #rows = new Map<string, Row>();
  readonly #title: string;
  readonly #colours: boolean;
  #turn = 0;
  #timer?: ReturnType<typeof setInterval>;

  constructor(io: Io, title: string, colours: boolean) {
    this.#region = new LiveRegion(io.stderr);
    this.#title = title;
    this.#colours = colours;
  }

  step(step: Step): void {
    const before = this.#rows.get(keyOf(step));
    const { begun, took } = before ?? { begun: performance.now() };
    // The time of a part ends with its first end: "Started" after "Created" goes on where it stood.
    this.#rows.set(keyOf(step), {
      ...{ ...step, begun },
      ...(step.end && { took: took ?? performance.now() - begun }),
    });
    this.#timer ??= setInterval(() => this.#draw(), TICK_MS);
    // Bytes come all the time: they are drawn with the next turn.
    if (before?.text !== step.text || before?.status !== step.status) this.#draw();
  }

  #row(row: Row, parts: readonly Row[], width: number): Span[] {
    const { id, parent, text = "", end, begun, took } = row;
    const { columns } = this.#region.size;
    const { mark, style } = end
      ? MARKS[end]
      : { mark: SPINNER[this.#turn % SPINNER.length], style: "yellow" as const };
    const time = `${((took ?? performance.now() - begun) / 1000).toFixed(1)}s `;
    const indent = parent === undefined ? " " : "   ";
    const { bar, bytes } = end || parts.length === 0 ? { bar: "", bytes: "" } : sumOf(parts);
    const least = width - (parent === undefined ? 0 : 2);
    const name = `${bytes}${text}`.padEnd(least - widthOf(`${id} ${bar}`));
    const status = row.status || bytesOf(row);
    const used = `${indent}${mark} ${id} ${bar}${name} ${time}`;
    const room = Math.max(1, columns - widthOf(used));
    const shown = widthOf(status) < room ? status : `${fit(status, Math.max(1, room - 4))}...`;
    return [
      { text: indent },
      { text: mark, style },
      { text: ` ${id} ` },
      { text: bar, style: "green" },
      { text: `${name} ` },
      { text: shown, ...(end && { style }) },
      { text: " ".repeat(Math.max(1, room - widthOf(shown))) },
      { text: time, style: "blue" },
    ];
  }

  #draw(): void {
    const rows = [...this.#rows.values()];
    const ended = rows.filter(({ end }) => end).length;
    const width = Math.max(
      ...rows.map(({ id, text = "", parent }) => widthOf(`${id} ${text}`) - (parent ? 2 : 0)),
    );
    const partsOf = Map.groupBy(rows, ({ parent }) => parent);
    const all = rows.length < this.#region.size.rows - 1;
    this.#turn++;
    const lines: Span[][] = [
      [{
        text: `[+] ${this.#title} ${ended}/${rows.length}`,
        ...(ended === rows.length && { style: "blue" }),
      }],
      ...(partsOf.get(undefined) ?? []).flatMap((row) => {
        const parts = partsOf.get(row.id) ?? [];
        const below = all ? parts.map((part) => this.#row(part, [], width)) : [];
        return [this.#row(row, parts, width), ...below];
      }),
    ];
    this.#region.draw(
      this.#colours ? lines : lines.map((line) => line.map(({ text }) => ({ text }))),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    if (this.#rows.size > 0) this.#draw();
    await this.#region[Symbol.asyncDispose]();
  }
}

/** A line for each change. */
class Lines implements Progress {
  readonly #io: Io;
  readonly #json: boolean;
  readonly #last = new Map<string, string>();
  #written: Promise<void> = Promise.resolve();

  constructor(io: Io, json: boolean) {
    this.#io = io;
    this.#json = json;
  }

  step(step: Step): void {
    const { id, parent, text = "", status, end } = step;
    const words = `${text} ${status}`;
    if (this.#last.get(keyOf(step)) === words) return;
    this.#last.set(keyOf(step), words);
    const line = this.#json
      ? JSON.stringify({
        ...{ id, ...(parent && { parent_id: parent }) },
        ...(text && { text }),
        ...(status && { status }),
        ...(end === "error" && { error: true }),
      })
      : ` ${id} ${words}`;
    this.#written = this.#io.stderr.write(line + "\n").catch(() => {/* nobody reads it */});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#written;
  }
}

const NOTHING: Progress = { step() {}, [Symbol.asyncDispose]: async () => {} };

/** Without progress where that is asked for. */
export function quietly<T extends ProjectInvocation>(call: T, quiet = false): T {
  return quiet ? { ...call, values: { ...call.values, composeProgress: "quiet" } } : call;
}

/** Shown between other lines of the same terminal: nothing is drawn in place, which would overwrite these. */
export function betweenLines<T extends ProjectInvocation>(call: T): T {
  const { composeProgress: mode, output } = call.values;
  return {
    ...call,
    values: {
      ...call.values,
      ...((mode === "auto" && output !== "json" || mode === "tty") && { composeProgress: "plain" }),
      ...((output === "auto" || output === "fancy") && { output: "plain" }),
    },
  };
}

/** `title`: "Running" for up and down. */
export function openProgress(
  { io, values, env }: Pick<ProjectInvocation, "io" | "values" | "env">,
  title = "Running",
): Progress {
  const mode = values.composeProgress;
  if (mode === "quiet") return NOTHING;
  if (mode === "json" || mode === "auto" && values.output === "json") return new Lines(io, true);
  const moving = mode === "tty" ||
    mode === "auto" && values.output !== "plain" && isLively(values, io.stderr.isTerminal);
  if (!moving) return new Lines(io, false);
  const colours = values.ansi === "always" || values.ansi !== "never" && !env.NO_COLOR;
  return new MovingLines(io, title, colours);
}

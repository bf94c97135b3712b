/** The progress of work on a project: moving lines on a terminal, lines elsewhere, or JSON. */
import type { Io } from "../../base/terminal.ts";
import type { Step } from "../../compose/steps.ts";
import { fit, widthOf } from "../build/region.ts";
import { LiveRegion, type Span } from "../live_region.ts";
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
    const { begun, took } = this.#rows.get(step.id) ?? { begun: performance.now() };
    // The time of a part ends with its first end: "Started" after "Created" goes on where it stood.
    this.#rows.set(step.id, {
      ...{ ...step, begun },
      ...(step.end && { took: took ?? performance.now() - begun }),
    });
    this.#timer ??= setInterval(() => this.#draw(), TICK_MS);
    this.#draw();
  }

  #row({ id, text = "", status, end, begun, took }: Row, width: number): Span[] {
    const { columns } = this.#region.size;
    const { mark, style } = end
      ? MARKS[end]
      : { mark: SPINNER[this.#turn % SPINNER.length], style: "yellow" as const };
    const time = `${((took ?? performance.now() - begun) / 1000).toFixed(1)}s `;
    const words = [text, status].filter(Boolean).join(" ");
    const head = ` ${mark} ${id.padEnd(width)}${text ? " " : "  "}`;
    const room = Math.max(1, columns - widthOf(head) - time.length);
    const shown = widthOf(words) < room ? words : `${fit(words, Math.max(1, room - 4))}...`;
    return [
      { text: " " },
      { text: mark, style },
      { text: head.slice(mark.length + 1) },
      { text: shown, ...(end && { style }) },
      { text: " ".repeat(Math.max(1, room - widthOf(shown))) },
      { text: time, style: "blue" },
    ];
  }

  #draw(): void {
    const rows = [...this.#rows.values()];
    const ended = rows.filter(({ end }) => end).length;
    const width = Math.max(...rows.map(({ id }) => widthOf(id)));
    this.#turn++;
    const lines: Span[][] = [
      [{
        text: `[+] ${this.#title} ${ended}/${rows.length}`,
        ...(ended === rows.length && { style: "blue" }),
      }],
      ...rows.map((row) => this.#row(row, width)),
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

  step({ id, text = "", status, end }: Step): void {
    const words = `${text} ${status}`;
    if (this.#last.get(id) === words) return;
    this.#last.set(id, words);
    const line = this.#json
      ? JSON.stringify({
        ...{ id, ...(text && { text }), ...(status && { status }) },
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

/** The progress of work on a project: moving lines on a terminal, lines elsewhere, or JSON. */
import { styleText } from "node:util";
import type { Io } from "../../base/terminal.ts";
import type { Step } from "../../compose/steps.ts";
import { LiveRegion } from "../live_region.ts";
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
  took?: number;
}

const MARKS = { done: ["green", "✔"], warning: ["yellow", "!"], error: ["red", "✘"] } as const;

/** docker compose's "[+] Running 1/2". */
class MovingLines implements Progress {
  readonly #region: LiveRegion;
  readonly #rows = new Map<string, Row>();
  readonly #title: string;
  #turn = 0;
  #timer?: ReturnType<typeof setInterval>;

  constructor(io: Io, title: string) {
    this.#region = new LiveRegion(io.stderr);
    this.#title = title;
  }

  step(step: Step): void {
    const before = this.#rows.get(step.id);
    const begun = before?.begun ?? performance.now();
    const took = step.end && performance.now() - begun;
    this.#rows.set(step.id, { ...step, begun, ...(took !== undefined && { took }) });
    this.#timer ??= setInterval(() => this.#draw(), TICK_MS);
    this.#draw();
  }

  #draw(): void {
    const rows = [...this.#rows.values()];
    const ended = rows.filter(({ end }) => end).length;
    const width = Math.max(...rows.map(({ id }) => id.length));
    const spin = SPINNER[this.#turn++ % SPINNER.length];
    this.#region.draw([
      `[+] ${this.#title} ${ended}/${rows.length}`,
      ...rows.map(({ id, status, end, begun, took }) => {
        const [colour, mark] = end ? MARKS[end] : ["blue", spin] as const;
        const time = `${((took ?? performance.now() - begun) / 1000).toFixed(1)}s`;
        const word = styleText(colour, status, { validateStream: false });
        return ` ${styleText(colour, mark, { validateStream: false })} ${
          id.padEnd(width)
        }  ${word}` +
          `${" ".repeat(Math.max(1, 12 - status.length))}${time}`;
      }),
    ]);
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

  step({ id, status, end }: Step): void {
    if (this.#last.get(id) === status) return;
    this.#last.set(id, status);
    const line = this.#json
      ? JSON.stringify({ id, status, ...(end === "error" && { error: true }) })
      : ` ${id}  ${status} `;
    this.#written = this.#io.stderr.write(line + "\n").catch(() => {/* nobody reads it */});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#written;
  }
}

const NOTHING: Progress = { step() {}, [Symbol.asyncDispose]: async () => {} };

/** `title`: "Running" for up and down. */
export function openProgress(
  { io, values }: Pick<ProjectInvocation, "io" | "values">,
  title = "Running",
): Progress {
  const mode = values.composeProgress;
  if (mode === "quiet") return NOTHING;
  if (mode === "json" || mode === "auto" && values.output === "json") return new Lines(io, true);
  const moving = mode === "tty" ||
    mode === "auto" && values.output !== "plain" && isLively(values, io.stderr.isTerminal);
  return moving ? new MovingLines(io, title) : new Lines(io, false);
}

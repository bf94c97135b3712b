/** Logs of several containers, each line with its container's name before it. */
import { styleText } from "node:util";
import { LinePrefixer } from "../../api/log_bytes.ts";
import type { LogFrame } from "../../api/deployment.ts";
import type { Io } from "../../base/terminal.ts";

/** docker compose's, in its order. */
const COLOURS = [
  "cyan",
  "yellow",
  "green",
  "magenta",
  "blue",
  "cyanBright",
  "yellowBright",
  "greenBright",
  "magentaBright",
  "blueBright",
] as const;
type Colour = typeof COLOURS[number];

export interface LogViewOptions {
  io: Io;
  colours: boolean;
  /** False: lines are shown as they are. */
  prefix: boolean;
  timestamps: boolean;
}

export class LogView {
  readonly #options: LogViewOptions;
  readonly #prefixer = new LinePrefixer();
  /** Prefix by container. */
  readonly #prefixes = new Map<string, string>();
  readonly #colours = new Map<string, Colour>();
  #width = 0;
  #written: Promise<unknown> = Promise.resolve();
  readonly #broken = Promise.withResolvers<never>();

  constructor(options: LogViewOptions) {
    this.#options = options;
    this.#broken.promise.catch(() => {/* its waiter is told */});
  }

  /** Rejects when nobody reads the output any more. */
  get broken(): Promise<never> {
    return this.#broken.promise;
  }

  /** Lines of these names will come: they are written below each other. */
  expect(names: readonly string[]): void {
    for (const name of names) {
      if (!this.#colours.has(name)) {
        this.#colours.set(name, COLOURS[this.#colours.size % COLOURS.length]);
      }
    }
    this.#width = Math.max(this.#width, ...names.map((name) => name.length));
    this.#prefixes.clear();
  }

  /** Spaces up to the bar that stands before each line. */
  get margin(): string {
    return this.#options.prefix ? " ".repeat(this.#width + 2) : "";
  }

  #prefixOf(name: string): string {
    const { prefix, colours } = this.#options;
    if (!prefix) return "";
    let text = this.#prefixes.get(name);
    if (text === undefined) {
      if (!this.#colours.has(name)) this.expect([name]);
      text = `${name.padEnd(this.#width)}  | `;
      if (colours) text = styleText(this.#colours.get(name)!, text, { validateStream: false });
      this.#prefixes.set(name, text);
    }
    return text;
  }

  frame(name: string, frame: LogFrame): void {
    const { io, timestamps } = this.#options;
    const time = timestamps ? `${frame.time} ` : "";
    const bytes = this.#prefixer.print(frame, this.#prefixOf(name) + time);
    this.#write(io[frame.stream].write(bytes));
  }

  /** A line about a container: "web-1 exited with code 0". */
  notice(text: string): void {
    this.#write(this.#options.io.stdout.write(`${text}\n`));
  }

  #write(writing: Promise<void>): void {
    this.#written = Promise.all([this.#written, writing.catch(this.#broken.reject)]);
  }

  /** Resolves when all is written. */
  async flush(): Promise<void> {
    await this.#written;
  }
}

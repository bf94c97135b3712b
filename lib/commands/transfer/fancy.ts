/** Progress bars on a terminal: finished blobs scroll up, running ones are redrawn in place below them. */
import { styleText } from "node:util";
import { formatBytes } from "../../base/bytes.ts";
import type { SvcError } from "../../base/errors.ts";
import { asIs, type Output } from "../../base/terminal.ts";
import type { Descriptor } from "../../oci/types.ts";
import { fit } from "../build/region.ts";
import { planText, type Reporter, shortDigest, WORDS, writer } from "./events.ts";
import type { Plan } from "../../transfer/plan.ts";
import type { Outcome } from "../../transfer/sink.ts";

const HIDE_CURSOR = "\x1b[?25l";
const SHOW_CURSOR = "\x1b[?25h";
const MAX_BAR = 40;

interface Moving {
  size: number;
  bytes: number;
  /** Bytes left by an earlier transfer: they do not count as speed. */
  from: number;
  since: number;
}

/** "[=====>    ]"; `width` is that of the inside. */
export function bar(part: number, width: number): string {
  const full = Math.max(0, Math.min(width, Math.floor(part * width)));
  const head = full > 0 && full < width ? ">" : "";
  return `[${"=".repeat(full - head.length)}${head}${" ".repeat(width - full)}]`;
}

const colour = (name: "green" | "yellow" | "bold", text: string) =>
  styleText(name, text, { validateStream: false });

export class FancyReporter implements Reporter {
  readonly #out: Output;
  readonly #now: () => number;
  readonly #writer: ReturnType<typeof writer>;
  readonly #timer: ReturnType<typeof setInterval>;
  readonly #moving = new Map<string, Moving>();
  #total = 0;
  #finished = 0;
  #count = 0;
  #blobs = 0;
  #drawn = 0;
  #begun = false;
  #pending = "";

  constructor(out: Output, intervalMs = 100, now: () => number = () => performance.now()) {
    this.#out = out;
    this.#now = now;
    this.#writer = writer((text) => out.write(asIs(text)));
    this.#timer = setInterval(() => this.draw(), intervalMs);
  }

  plan(plan: Plan, source: string, destination: string): void {
    this.#total = plan.blobs.reduce((sum, blob) => sum + blob.size, 0);
    this.#blobs = plan.blobs.length;
    this.#pending += fit(planText(plan, source, destination), this.#columns()) + "\n";
  }

  start({ digest, size }: Descriptor): void {
    this.#moving.set(digest, { size, bytes: 0, from: -1, since: this.#now() });
  }

  progress({ digest }: Descriptor, bytes: number): void {
    const moving = this.#moving.get(digest);
    if (!moving) return;
    if (moving.from < 0) [moving.from, moving.since] = [bytes, this.#now()];
    moving.bytes = bytes;
  }

  done({ digest, size }: Descriptor, outcome: Outcome): void {
    this.#moving.delete(digest);
    this.#finished += size;
    this.#count++;
    const line = `${shortDigest(digest)} ${formatBytes(size)} ${WORDS[outcome]}`;
    this.#pending += colour("green", fit(line, this.#columns())) + "\n";
  }

  notice(message: string): void {
    this.#pending += colour("yellow", fit(`svc: ${message}`, 500)) + "\n";
  }

  failed(_error: SvcError): void {
    this.#moving.clear();
  }

  #columns(): number {
    return this.#out.size()?.columns ?? 80;
  }

  #line(digest: string, { size, bytes, from, since }: Moving, columns: number): string {
    const seconds = (this.#now() - since) / 1000;
    const speed = seconds > 0.2 && from >= 0 ? (bytes - from) / seconds : 0;
    const left = shortDigest(digest);
    const right = `${formatBytes(bytes)} / ${formatBytes(size)}` +
      (speed > 0 ? ` ${formatBytes(Math.round(speed))}/s` : "");
    const width = Math.min(MAX_BAR, columns - left.length - right.length - 4);
    const middle = width >= 5 ? ` ${bar(size > 0 ? bytes / size : 0, width)} ` : " ";
    return fit(`${left}${middle}${right}`, columns);
  }

  #region(): string[] {
    const columns = this.#columns();
    const rows = this.#out.size()?.rows ?? 24;
    const moving = [...this.#moving];
    const arrived = this.#finished + moving.reduce((sum, [, { bytes }]) => sum + bytes, 0);
    const head = `${this.#count}/${this.#blobs} blobs, ${formatBytes(arrived)} / ${
      formatBytes(this.#total)
    }`;
    const lines = moving.map(([digest, state]) => this.#line(digest, state, columns));
    return [...lines.slice(0, Math.max(0, rows - 2)), colour("bold", fit(head, columns))];
  }

  /** Writes finished lines above the region, then redraws the region. */
  draw(last = false): void {
    const clear = this.#drawn > 0 ? `\x1b[${this.#drawn}A\r\x1b[J` : "";
    const region = last || this.#blobs === 0 ? [] : this.#region();
    const begin = this.#begun ? "" : HIDE_CURSOR;
    this.#begun = true;
    const body = clear + this.#pending + region.map((line) => line + "\n").join("");
    this.#drawn = region.length;
    this.#pending = "";
    this.#writer.write(begin + body + (last ? SHOW_CURSOR : ""));
  }

  /** Removes the region, keeps the finished lines, and shows the cursor again. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.draw(true);
    await this.#writer.flushed();
  }
}

/** Progress line by line, for logs and pipes: `#5 [build 2/4] RUN make`, `#5 0.512 output`, `#5 DONE`. */
import type { BuildEvent } from "../../api/build.ts";
import { formatBytes } from "../../base/bytes.ts";
import { harmless } from "../../base/terminal.ts";
import { type BuildProgress, queuedText, type Vertex, warningText } from "./progress.ts";

/** Applies an event to the state and returns the lines to print; output of steps is passed on unchanged. */
export class PlainProgress {
  readonly #state: BuildProgress;
  /** Vertices whose name was printed. */
  readonly #named = new Set<string>();
  /** Quarters of a transfer that were printed, by vertex and label. */
  readonly #quarters = new Map<string, number>();

  constructor(state: BuildProgress) {
    this.#state = state;
  }

  lines(event: BuildEvent): string[] {
    const { vertex, lines } = this.#state.apply(event);
    if (event.type === "warning") {
      return [harmless(warningText(event))];
    }
    if (event.type === "queued") return [queuedText(event.place)];
    // A vertex is printed at its first event: all vertices of a graph become known at once.
    if (!vertex || event.type === "vertex") return [];
    const said = lines.map((line) => `#${vertex.number} ${this.#clock(vertex)} ${line}`);
    const closing = this.#closing(event, vertex);
    return [...this.#name(vertex), ...said, ...closing];
  }

  #name(vertex: Vertex): string[] {
    if (this.#named.has(vertex.id)) return [];
    this.#named.add(vertex.id);
    return [harmless(`#${vertex.number} ${vertex.name}`)];
  }

  #clock(vertex: Vertex): string {
    const since = vertex.startedAt === undefined ? 0 : this.#state.now() - vertex.startedAt;
    return (since / 1000).toFixed(3);
  }

  #closing(event: BuildEvent, vertex: Vertex): string[] {
    const mark = `#${vertex.number}`;
    switch (event.type) {
      case "cached":
        return [`${mark} CACHED`, ""];
      case "done":
        return [`${mark} DONE ${(event.durationMs / 1000).toFixed(1)}s`, ""];
      case "failed":
        return [harmless(`${mark} ERROR: ${event.message}`), ""];
      case "progress":
        return this.#transfer(event, vertex);
      default:
        return [];
    }
  }

  /** Prints a transfer at each quarter; one without a known total only at the end. */
  #transfer(event: BuildEvent & { type: "progress" }, vertex: Vertex): string[] {
    if (!event.total) return [];
    // A total that grows (steps fetch more of the context) starts a new transfer.
    const key = `${vertex.id} ${event.label} ${event.total}`;
    const quarter = Math.floor(4 * event.current / event.total);
    if (quarter <= (this.#quarters.get(key) ?? 0)) return [];
    this.#quarters.set(key, quarter);
    const amounts = `${formatBytes(event.current)} / ${formatBytes(event.total)}`;
    return [harmless(`#${vertex.number} ${event.label} ${amounts}`)];
  }
}

/** The state of a build after its events so far: the model that every display reads. */
import type { BuildEvent, BuildResult } from "../../api/build.ts";
import type { Problem } from "../../api/problem.ts";

export interface Vertex {
  id: string;
  /** From 1, in the order they became known. */
  number: number;
  name: string;
  stage?: string;
  line?: number;
  state: "known" | "running" | "cached" | "done" | "failed";
  /** Local time of the start event, in milliseconds. */
  startedAt?: number;
  durationMs?: number;
  /** Bytes moved, by label; finished transfers are removed. */
  transfers: Map<string, { current: number; total?: number }>;
  /** Last lines of output, newest last. */
  tail: string[];
}

/** Lines of output kept for the report of a failure. */
export const TAIL = 20;

export class BuildProgress {
  readonly vertices = new Map<string, Vertex>();
  /** Vertex whose failure ended the build. */
  failed?: Vertex;
  result?: BuildResult;
  error?: Problem;
  /** Place in the server's queue while the build waits. */
  queued?: number;
  warnings: { message: string; line?: number; rule?: string }[] = [];
  /** Local time at which the build began, in milliseconds. */
  readonly begun: number;
  readonly #now: () => number;
  /** The unfinished line of each vertex, by stream. */
  readonly #partial = new Map<string, string>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.begun = now();
  }

  now(): number {
    return this.#now();
  }

  #vertex(id: string): Vertex {
    let vertex = this.vertices.get(id);
    if (!vertex) {
      vertex = {
        id,
        number: this.vertices.size + 1,
        name: id,
        state: "known",
        transfers: new Map(),
        tail: [],
      };
      this.vertices.set(id, vertex);
    }
    return vertex;
  }

  /**
   * Applies an event. Returns its vertex, and for output the lines that it completes. Unknown types, of a newer
   * server, are ignored.
   */
  apply(event: BuildEvent): { vertex?: Vertex; lines: string[] } {
    let lines: string[] = [];
    this.queued = event.type === "queued" ? event.place : undefined;
    if (event.type === "warning") this.warnings.push(event);
    else if (event.type === "result") this.result = event.result;
    else if (event.type === "error") this.error = event.error;
    if (!("id" in event)) return { lines };
    const vertex = this.#vertex(event.id);
    switch (event.type) {
      case "vertex":
        Object.assign(vertex, { name: event.name, stage: event.stage, line: event.line });
        break;
      case "start":
        vertex.state = "running";
        vertex.startedAt = this.#now();
        break;
      case "cached":
        vertex.state = "cached";
        break;
      case "output":
        lines = this.#complete(vertex, event.stream, event.text);
        break;
      case "progress":
        if (event.current === event.total) vertex.transfers.delete(event.label);
        else vertex.transfers.set(event.label, { current: event.current, total: event.total });
        break;
      case "done":
        vertex.state = "done";
        vertex.durationMs = event.durationMs;
        lines = this.#rest(vertex);
        break;
      case "failed":
        vertex.state = "failed";
        this.failed ??= vertex;
        if (vertex.startedAt !== undefined) vertex.durationMs = this.#now() - vertex.startedAt;
        lines = this.#rest(vertex);
        break;
    }
    vertex.tail = [...vertex.tail, ...lines].slice(-TAIL);
    return { vertex, lines };
  }

  #complete(vertex: Vertex, stream: string, text: string): string[] {
    const key = `${stream} ${vertex.id}`;
    const pieces = ((this.#partial.get(key) ?? "") + text).split("\n");
    this.#partial.set(key, pieces.pop()!);
    return pieces.map(lastOfLine);
  }

  #rest(vertex: Vertex): string[] {
    return ["stdout", "stderr"].flatMap((stream) => {
      const key = `${stream} ${vertex.id}`;
      const text = this.#partial.get(key);
      this.#partial.delete(key);
      return text ? [lastOfLine(text)] : [];
    });
  }
}

/** The part of a line after its last rewrite in place (progress bars). */
function lastOfLine(line: string): string {
  return line.replace(/\r+$/, "").split("\r").at(-1)!;
}

/** 1.2s, 65.0s: seconds with one decimal. */
export const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)}s`;

/** Text for a build that waits in the queue. */
export const queuedText = (place: number): string =>
  `Waiting for other builds to end: place ${place} in the server's queue`;

/** "WARNING: StageNameCasing: line 3: …". */
export function warningText(
  { message, line, rule }: { message: string; line?: number; rule?: string },
): string {
  return `WARNING: ${rule ? `${rule}: ` : ""}${line ? `line ${line}: ` : ""}${message}`;
}

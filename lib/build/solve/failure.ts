/** Errors of steps: line, instruction, command and last output (`build_failed`). */
import { concat } from "../../base/collect.ts";
import { asSvcError, isAbort, SvcError } from "../../base/errors.ts";
import { formatDuration } from "../../base/duration.ts";
import type { RunVertex, Vertex } from "../plan/graph.ts";

/** Bytes of a step's last output that an error carries. */
const TAIL = 64 * 1024;

/** The last bytes of a stream of chunks, with bounded memory. */
export class OutputTail {
  #chunks: Uint8Array[] = [];
  #size = 0;

  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk.slice(-TAIL));
    this.#size += this.#chunks.at(-1)!.length;
    while (this.#size - this.#chunks[0].length >= TAIL) this.#size -= this.#chunks.shift()!.length;
  }

  text(): string {
    return new TextDecoder().decode(concat(this.#chunks).subarray(-TAIL));
  }
}

/** `Cannot build Dockerfile:7: RUN make` */
const attempted = (file: string, vertex: Vertex) =>
  `Cannot build ${file}:${vertex.line}: ${vertex.text}`;

function detail(file: string, vertex: Vertex): Record<string, unknown> {
  return {
    file,
    line: vertex.line,
    instruction: vertex.text,
    ...(vertex.stage !== undefined && { stage: vertex.stage }),
  };
}

/** The error of a step or build that took longer than its limit. */
export function tooLong(what: string, variable: string, ms: number): SvcError {
  return new SvcError("timeout", `${what} took longer than ${formatDuration(ms)} (${variable})`, {
    help: `see what it waits for, or raise ${variable} on the server`,
  });
}

export function commandFailed(
  file: string,
  vertex: RunVertex,
  exitCode: number,
  output: string,
): SvcError {
  return new SvcError("build_failed", `${attempted(file, vertex)}: exit code ${exitCode}`, {
    detail: { ...detail(file, vertex), command: vertex.args, exitCode, output },
  });
}

/**
 * The build's error for what a step threw, with line and instruction. Aborts, and errors with a more telling
 * code (a full disk, a missing tool), keep their code.
 */
export function stepFailed(file: string, vertex: Vertex, error: unknown): unknown {
  if (isAbort(error)) return error;
  if (error instanceof SvcError && error.detail?.instruction !== undefined) return error;
  const known = asSvcError(error);
  const ownFault = ["argument_invalid", "archive_invalid", "internal", "not_found"].includes(
    known.code,
  );
  return new SvcError(
    ownFault ? "build_failed" : known.code,
    `${attempted(file, vertex)}: ${known.message}`,
    { cause: error, help: known.help, detail: { ...known.detail, ...detail(file, vertex) } },
  );
}

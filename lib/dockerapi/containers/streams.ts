/** Output and input of processes on a connection that was taken over. */
import type { LogFrame } from "../../api/deployment.ts";
import { printedBytes } from "../../api/log_bytes.ts";
import { parseDetachKeys, withoutKeys } from "../../base/detach_keys.ts";
import type { TerminalSize } from "../../base/terminal.ts";
import type { Terminal } from "../../client/exec.ts";
import type { Duplex } from "../../wire/duplex.ts";
import { invalid } from "../errors.ts";
import type { Call, Taking } from "../request.ts";
import { isAtLeast } from "../versions.ts";

/** What the bytes come behind where there is no terminal (Docker Engine API, "Stream format"). */
export function framed(stream: "stdout" | "stderr", bytes: Uint8Array): Uint8Array {
  const all = new Uint8Array(8 + bytes.length);
  all[0] = stream === "stdout" ? 1 : 2;
  new DataView(all.buffer).setUint32(4, bytes.length);
  all.set(bytes, 8);
  return all;
}

/** The bytes of a log's frame, as `docker logs` sends them. */
export function loggedBytes(
  frame: LogFrame,
  { tty, timestamps }: { tty: boolean; timestamps: boolean },
): Uint8Array {
  const printed = printedBytes(frame);
  const bytes = timestamps ? joined(new TextEncoder().encode(`${frame.time} `), printed) : printed;
  return tty ? bytes : framed(frame.stream, bytes);
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** The client's bytes as a stream, to their end. `keys`: those that detach; then `came` is called. */
export function inputOf(
  connection: Pick<Duplex, "read">,
  keys: string | undefined,
  came: () => void,
): ReadableStream<Uint8Array> {
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const bytes = await connection.read().catch(() => undefined);
      if (bytes) controller.enqueue(bytes);
      else controller.close();
    },
  }, { highWaterMark: 0 });
  return keys ? stream.pipeThrough(withoutKeys(parseDetachKeys(keys), came)) : stream;
}

export const DETACH_KEYS = "ctrl-p,ctrl-q";

/** A terminal whose size docker's clients tell by calls of their own. */
export class RemoteTerminal implements Terminal {
  #size: TerminalSize | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(size?: TerminalSize) {
    this.#size = size;
  }

  // Callers take these two off the object.
  readonly size = (): TerminalSize | undefined => this.#size;

  readonly onResize = (listener: () => void): () => void => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  resize(size: TerminalSize): void {
    this.#size = size;
    for (const listener of this.#listeners) listener();
  }
}

/** The type of a stream of output, for that version of the API. */
export const streamType = ({ version }: Pick<Call, "version">, tty: boolean): Taking["type"] =>
  tty || !isAtLeast(version, "1.42")
    ? "application/vnd.docker.raw-stream"
    : "application/vnd.docker.multiplexed-stream";

/** Sets the terminal's size to that of the query. Throws `argument_invalid`. */
export function resizeBy({ query }: Pick<Call, "query">, terminal: RemoteTerminal | undefined) {
  const size = sizeOf([query.get("h"), query.get("w")]);
  if (!size) throw invalid("Cannot resize: h and w are 1..65535");
  terminal?.resize(size);
}

/** The size in the parameters `h` and `w`, or in a pair of rows and columns; undefined where there is none. */
export function sizeOf(pair: readonly unknown[] | null | undefined): TerminalSize | undefined {
  const [rows, columns] = (pair ?? []).map(Number);
  const fits = (count: number) => Number.isInteger(count) && count >= 1 && count <= 0xffff;
  return fits(rows) && fits(columns) ? { rows, columns } : undefined;
}

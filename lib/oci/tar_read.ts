/** Tar archives as streams: entries one after the other, each with its body. */
import { type TarHeader } from "./tar.ts";
import { TarParser } from "./tar_parser.ts";

export interface TarEntry {
  header: TarHeader;
  /**
   * The content, with holes as zeros. Valid until the next entry is requested; the unread rest is then
   * skipped, and the stream errors.
   */
  body: ReadableStream<Uint8Array>;
  /** The content instead of `body`: bytes, and for each hole its length. */
  parts(): AsyncGenerator<Uint8Array | number, void, void>;
}

type Event =
  | { kind: "entry"; header: TarHeader }
  | { kind: "data"; bytes: Uint8Array }
  | { kind: "hole"; length: number }
  | { kind: "end" };

const ZEROS = 64 * 1024;

/**
 * Reads an archive (uncompressed: see compression.ts). Throws `archive_invalid` where it is damaged or
 * ends early, and what `stream` throws. Leaving the loop cancels the stream.
 */
export async function* readTar(
  stream: ReadableStream<Uint8Array>,
  options: { signal?: AbortSignal } = {},
): AsyncGenerator<TarEntry, void, void> {
  const reader = stream.getReader();
  const queue: Event[] = [];
  let head = 0;
  const parser = new TarParser({
    entry: (header) => queue.push({ kind: "entry", header }),
    // A view of the chunk just read, which nobody else changes.
    data: (bytes) => queue.push({ kind: "data", bytes }),
    hole: (length) => queue.push({ kind: "hole", length }),
    end: () => queue.push({ kind: "end" }),
  });
  let ended = false;
  /** The next event; undefined at the end of the archive. */
  const next = async (): Promise<Event | undefined> => {
    while (head === queue.length) {
      queue.length = head = 0;
      if (ended) return undefined;
      options.signal?.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) {
        ended = true;
        parser.finish();
      } else parser.push(value);
    }
    return queue[head++];
  };
  let current: { detach: () => Promise<void> } | undefined;
  try {
    while (true) {
      await current?.detach();
      const event = await next();
      if (!event) return;
      if (event.kind !== "entry") continue;
      const entry = body(event.header, next);
      current = entry;
      yield { header: event.header, body: entry.stream, parts: entry.parts };
    }
  } finally {
    await reader.cancel().catch(() => {/* what broke it has been thrown already */});
    reader.releaseLock();
  }
}

function body(header: TarHeader, next: () => Promise<Event | undefined>) {
  let finished = false;
  let detached = false;
  let hole = 0;
  let busy: Promise<unknown> = Promise.resolve();
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const pull = async () => {
    if (hole > 0) {
      const length = Math.min(hole, ZEROS);
      hole -= length;
      controller.enqueue(new Uint8Array(length));
      return;
    }
    const event = await next();
    if (!event || event.kind === "end") {
      finished = true;
      if (!detached) controller.close();
    } else if (detached) return;
    else if (event.kind === "data") controller.enqueue(event.bytes);
    else if (event.kind === "hole") {
      hole = event.length;
      await pull();
    }
  };
  const stream = new ReadableStream<Uint8Array>({
    start: (c) => {
      controller = c;
    },
    pull: () => {
      const work = pull();
      busy = work.catch(() => {});
      return work;
    },
    // The rest is skipped when the next entry is requested.
    cancel: () => {
      detached = true;
    },
  }, { highWaterMark: 0 });
  const detach = async () => {
    await busy;
    if (!finished && !detached) {
      controller.error(new Error(`the archive has moved past ${header.path}`));
    }
    detached = true;
    hole = 0;
    while (!finished) await pull();
  };
  const parts = async function* () {
    while (!finished) {
      const event = await next();
      if (!event || event.kind === "end") finished = true;
      else if (event.kind === "data") yield event.bytes;
      else if (event.kind === "hole") yield event.length;
    }
  };
  return { stream, parts, detach };
}

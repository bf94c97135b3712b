/** What a container prints, as bytes, from a place in its log on. */
import { headOf, LogFileReader, replaced } from "./log_file.ts";

/** A place in a log: all that comes after it was printed later. */
export interface LogPlace {
  /** Null: there was no log yet. */
  inode: number | null;
  offset: number;
}

/** Where the log ends now. */
export async function endOfLog(path: string): Promise<LogPlace> {
  const info = await Deno.stat(path).catch(() => undefined);
  return { inode: info?.ino ?? null, offset: info?.size ?? 0 };
}

export interface OutputOptions {
  stream: "stdout" | "stderr";
  from: LogPlace;
  /** Resolves where the output ends, once it has ended. */
  until: Promise<LogPlace>;
  /** Leaves the rest unread. */
  signal: AbortSignal;
  /** Its event "typed" says that an answer may be near. */
  input?: EventTarget;
}

/** Milliseconds between two looks at the log: soon after output, and after a while without any. */
const SHORTEST = 5;
const LONGEST = 100;

/** The file in which the place is, at that place; where it is gone, the oldest file. */
async function openAt(
  path: string,
  { inode, offset }: LogPlace,
): Promise<LogFileReader | undefined> {
  const [newer, older] = [await LogFileReader.open(path), await LogFileReader.open(`${path}.1`)];
  const chosen = [newer, older].find((reader) => reader && reader.inode === inode);
  const found = chosen ?? older ?? newer;
  for (const reader of [newer, older]) if (reader !== found) reader?.close();
  if (chosen) await chosen.seek(offset);
  return found;
}

/** The bytes of that stream, as they were printed, as they come. */
export async function* readOutput(
  path: string,
  { stream, from, until, signal, input }: OutputOptions,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  let end: LogPlace | undefined;
  until.then((place) => {
    end = place;
  });
  let wait = SHORTEST;
  let wake = () => {};
  const hurry = () => {
    wait = SHORTEST;
    wake();
  };
  signal.addEventListener("abort", hurry);
  input?.addEventListener("typed", hurry);
  let reader = await openAt(path, from);
  try {
    while (!signal.aborted) {
      // Asked before the read: everything printed until then is read below.
      const last = end;
      const moved = reader && await replaced(path, reader);
      for (let lines = await reader?.next(); lines?.length; lines = await reader?.next()) {
        // A restart goes on in the same log.
        const here = end?.inode === reader!.inode ? end : undefined;
        const bytes = textOf(
          lines,
          stream,
          here && here.offset - (reader!.position - sizeOf(lines)),
        );
        if (bytes.length > 0) yield bytes;
        if (signal.aborted || here && reader!.position >= here.offset) return;
        wait = SHORTEST;
      }
      if (moved || !reader) {
        const next: LogFileReader | undefined = await LogFileReader.open(path);
        if (next) {
          reader?.close();
          reader = next;
          continue;
        }
      }
      if (last) return;
      const pause = wait;
      wait = Math.min(2 * wait, LONGEST);
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pause);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  } finally {
    signal.removeEventListener("abort", hurry);
    input?.removeEventListener("typed", hurry);
    reader?.close();
  }
}

const sizeOf = (lines: readonly Uint8Array[]) =>
  lines.reduce((sum, { length }) => sum + length + 1, 0);

/** What was printed to the stream, of the lines within the first `limit` bytes. */
function textOf(
  lines: readonly Uint8Array[],
  stream: string,
  limit = Infinity,
): Uint8Array<ArrayBuffer> {
  const text = new Uint8Array(sizeOf(lines));
  let used = 0;
  let at = 0;
  for (const line of lines) {
    at += line.length + 1;
    if (at > limit) break;
    const head = headOf(line);
    if (head?.stream !== stream) continue;
    const part = line.subarray(head.text);
    text.set(part, used);
    used += part.length;
    if (head.whole) text[used++] = 10;
  }
  return text.subarray(0, used);
}

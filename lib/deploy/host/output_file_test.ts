import assert from "node:assert/strict";
import { join } from "node:path";
import { endOfLog, type LogPlace, readOutput } from "./output_file.ts";

const line = (stream: string, tag: string, text: string) =>
  `2026-01-01T00:00:00.000000000Z ${stream} ${tag} ${text}\n`;

async function withLog(
  fn: (path: string, put: (...lines: string[]) => Promise<void>) => Promise<void>,
) {
  const folder = await Deno.makeTempDir();
  try {
    const path = join(folder, "log");
    const put = (...lines: string[]) => Deno.writeTextFile(path, lines.join(""), { append: true });
    await fn(path, put);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Begins to read one stream; `rest` is all that comes until the end. */
function begin(path: string, from: LogPlace) {
  const end = Promise.withResolvers<LogPlace>();
  const abort = new AbortController();
  const { promise: until } = end;
  const output = readOutput(path, { stream: "stdout", from, until, signal: abort.signal });
  const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return {
    next: async () => decode((await output.next()).value ?? new Uint8Array()),
    end: async () => end.resolve(await endOfLog(path)),
    leave: () => abort.abort(),
    rest: async () => (await Array.fromAsync(output)).map(decode).join(""),
  };
}

Deno.test("output: the bytes of one stream from a place on, without what comes after the end", () =>
  withLog(async (path, put) => {
    await put(line("stdout", "F", "old"));
    const reading = begin(path, await endOfLog(path));
    await put(line("stdout", "P", "a b"), line("stderr", "F", "no"), line("stdout", "F", " c"));
    assert.equal(await reading.next(), "a b c\n");
    await put(line("stdout", "F", ""), line("stdout", "P", "end"));
    await reading.end();
    await put(line("stdout", "F", "of the next run"));
    assert.equal(await reading.rest(), "\nend");
  }));

Deno.test("output: a log that is not there yet, and one that is moved away meanwhile", () =>
  withLog(async (path, put) => {
    const reading = begin(path, await endOfLog(path));
    await put(line("stdout", "F", "1"));
    assert.equal(await reading.next(), "1\n");
    await Deno.rename(path, `${path}.1`);
    await Deno.writeTextFile(`${path}.1`, line("stdout", "F", "2"), { append: true });
    await put(line("stdout", "F", "3"));
    assert.equal(await reading.next(), "2\n");
    const place = { inode: (await Deno.stat(`${path}.1`)).ino, offset: 0 };
    const older = begin(path, place);
    await Promise.all([reading.end(), older.end()]);
    assert.equal(await reading.rest(), "3\n");
    assert.equal(await older.rest(), "1\n2\n3\n");
  }));

Deno.test("output: who leaves does not wait for more", () =>
  withLog(async (path) => {
    const reading = begin(path, await endOfLog(path));
    const nothing = reading.rest();
    reading.leave();
    assert.equal(await nothing, "");
  }));

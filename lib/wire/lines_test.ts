import assert from "node:assert/strict";
import { SvcError } from "../base/errors.ts";
import { LineReader, LineWriter, writeLine } from "./lines.ts";
import { duplexPair } from "./testing.ts";

const refused = (error: unknown) => error instanceof SvcError && error.code === "upstream_failed";

function reader(chunks: string[], maxLine?: number): LineReader {
  const [here, there] = duplexPair();
  for (const chunk of chunks) there.write(new TextEncoder().encode(chunk));
  there.closeWrite();
  return new LineReader(here, maxLine);
}

async function all(lines: LineReader): Promise<unknown[]> {
  const found: unknown[] = [];
  for (let some = await lines.lines(); some; some = await lines.lines()) found.push(...some);
  return found;
}

Deno.test("lines: as many as come together, whatever the pieces", async () => {
  const values = [1, ["a", "\u00e9\n"], { x: null }, null, "last"];
  const text = values.map((value) => JSON.stringify(value) + "\n").join("");
  for (const size of [1, 2, 3, 5, 8, 13, 100]) {
    const chunks = text.match(new RegExp(`[^]{1,${size}}`, "gu"))!;
    assert.deepEqual(await all(reader(chunks)), values, `${size}`);
  }
  const lines = reader(["1\n2\n3", "\n4\nrest"]);
  assert.deepEqual(await lines.lines(), [1, 2]);
  assert.equal(await lines.line(), 3);
  assert.deepEqual(await lines.lines(), [4]);
  assert.equal(new TextDecoder().decode(await lines.read()), "rest");
  assert.equal(await lines.lines(), undefined);
});

Deno.test("lines: values that come together go out together, in order; flush waits for no timer", async () => {
  const [here, there] = duplexPair();
  const writes: Uint8Array[] = [];
  const counted = {
    ...here,
    write: async (bytes: Uint8Array) => {
      writes.push(bytes);
      await here.write(bytes);
    },
  } as typeof here;
  const writer = new LineWriter(counted);
  const lines = new LineReader(there);
  for (let n = 0; n < 5; n++) writer.send(n);
  assert.equal(writes.length, 0);
  for (let n = 0; n < 5; n++) assert.equal(await lines.line(), n);
  assert.deepEqual([writes.length, writer.sent], [1, 1]);
  writer.send("a");
  const flushed = writer.flush();
  writer.send("b");
  await flushed;
  await writer.flush();
  assert.deepEqual([await lines.line(), await lines.line(), writes.length], ["a", "b", 3]);
  counted.write = () => Promise.reject(new Error("gone"));
  writer.send("lost");
  await assert.rejects(writer.flush(), /gone/);
  writer.send("lost too");
  await assert.rejects(writer.flush(), /gone/);
});

Deno.test("lines: what is none is refused", async () => {
  for (const chunks of [["\n"], ["{\n"], ["1\n", "2"], ["1\n\n"], ["1\n2,3\n"]]) {
    await assert.rejects(all(reader(chunks)), refused, JSON.stringify(chunks));
  }
  await assert.rejects(all(reader(['1\n"too long"\n'], 8)), refused);
  await assert.rejects(all(reader(['"too', ' long"\n'], 8)), refused);
  const [here, there] = duplexPair();
  await there.write(new Uint8Array([34, 255, 34, 10]));
  await assert.rejects(all(new LineReader(here)), refused);
  const [one, other] = duplexPair();
  await writeLine(one, "fits");
  assert.deepEqual(await new LineReader(other, 8).lines(), ["fits"]);
});

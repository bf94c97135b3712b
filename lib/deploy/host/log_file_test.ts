import assert from "node:assert/strict";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { LogFrame } from "../../api/deployment.ts";
import { printedBytes } from "../../api/log_bytes.ts";
import { normalTime } from "../log_frame.ts";
import { mergeLogs, readLog, type ReadLogOptions, rotateLog } from "./log_file.ts";

const time = (second: number) =>
  `2026-01-01T00:00:${String(second).padStart(2, "0")}.000000001+00:00`;
const line = (second: number, text: string, tag = "F", stream = "stdout") =>
  `${time(second)} ${stream} ${tag} ${text}\n`;

async function withLog(work: (path: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(join(dir, "a.log"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const framesOf = async (path: string, options?: ReadLogOptions) =>
  (await Array.fromAsync(readLog(path, "a-0", options))).flat();

const texts = async (path: string, options?: ReadLogOptions) =>
  (await framesOf(path, options)).map((frame) => frame.line);

Deno.test("lines, parts and streams become frames; times become UTC", () =>
  withLog(async (path) => {
    assert.deepEqual(await texts(path), []);
    await Deno.writeTextFile(
      path,
      line(1, "one") + line(2, "par", "P") + line(2, "err", "F", "stderr") + line(2, "tial") +
        "garbage\n" + line(3, "") + "2026-01-01T00:00:04.0+00:00 stdout F half",
    );
    const frames = await framesOf(path);
    assert.deepEqual(frames.map((f) => [f.stream, f.line]), [
      ["stdout", "one"],
      ["stderr", "err"],
      ["stdout", "partial"],
      ["stdout", ""],
    ]);
    assert.equal(frames[0].time, "2026-01-01T00:00:01.000000001Z");
    assert.equal(normalTime("2026-01-01T01:00:00.5+01:00"), "2026-01-01T00:00:00.500000000Z");
  }));

Deno.test("output that ends without a newline is the last frame", () =>
  withLog(async (path) => {
    await Deno.writeTextFile(path, line(1, "a") + line(2, "b") + line(3, "cut", "P"));
    assert.deepEqual(await texts(path), ["a", "b", "cut"]);
    assert.deepEqual(await texts(path, { tail: 2 }), ["b", "cut"]);
    assert.deepEqual(await texts(path, { follow: true, ended: () => true }), ["a", "b", "cut"]);
  }));

const printed = async (path: string, options?: ReadLogOptions) => {
  const frames = await framesOf(path, options);
  return await new Blob(frames.map(printedBytes)).bytes();
};

Deno.test("frames give back the bytes that were printed", () =>
  withLog(async (path) => {
    const encoder = new TextEncoder();
    // As a monitor writes it: in parts that end anywhere, in the middle of a character too.
    const written = new Uint8Array([
      ...encoder.encode("\ufeffmark\r\n☃☃☃\n\n"),
      ...[0, 255, 254, 13, 10, 0xc3],
    ]);
    for (const size of [1, 2, 5, 1000]) {
      let at = 0;
      const rows: Uint8Array[] = [];
      while (at < written.length) {
        const newline = written.indexOf(10, at);
        const end = Math.min(at + size, newline < 0 ? written.length : newline);
        const whole = end === newline;
        rows.push(
          encoder.encode(`${time(1)} stdout ${whole ? "F" : "P"} `),
          written.subarray(at, end),
          encoder.encode("\n"),
        );
        at = whole ? end + 1 : end;
      }
      await Deno.writeFile(path, new Uint8Array(rows.flatMap((row) => [...row])));
      assert.deepEqual(await printed(path), written, `parts of ${size}`);
      assert.deepEqual(await printed(path, { tail: 99 }), written);
      const [first, snow, , odd, last] = await framesOf(path);
      assert.equal(first.line, "\ufeffmark\r");
      assert.deepEqual([snow.line, snow.base64, snow.partial], ["☃☃☃", undefined, undefined]);
      assert.equal(odd.base64, btoa("\0\xff\xfe\r"));
      assert.deepEqual([last.base64, last.partial], [btoa("\xc3"), true]);
    }
  }));

Deno.test("a line too long for one frame goes on in the next", () =>
  withLog(async (path) => {
    const part = "☃".repeat(2730);
    await Deno.writeTextFile(path, line(1, part, "P").repeat(200) + line(1, "end"));
    const frames = await framesOf(path);
    assert.deepEqual(frames.map(({ partial }) => partial), [true, undefined]);
    assert.equal(new TextDecoder().decode(await printed(path)), `${part.repeat(200)}end\n`);
  }));

Deno.test("tail, since and until, across the rotated file", () =>
  withLog(async (path) => {
    await Deno.writeTextFile(`${path}.1`, line(1, "a") + line(2, "b"));
    await Deno.writeTextFile(path, line(3, "c") + line(4, "d"));
    assert.deepEqual(await texts(path), ["a", "b", "c", "d"]);
    assert.deepEqual(await texts(path, { tail: 3 }), ["b", "c", "d"]);
    assert.deepEqual(await texts(path, { tail: 0 }), []);
    assert.deepEqual(await texts(path, { tail: 99 }), ["a", "b", "c", "d"]);
    const since = new Date("2026-01-01T00:00:02Z");
    assert.deepEqual(await texts(path, { since }), ["b", "c", "d"]);
    assert.deepEqual(await texts(path, { since, until: new Date("2026-01-01T00:00:03.5Z") }), [
      "b",
      "c",
    ]);
  }));

Deno.test("tail reads a big log from its end", () =>
  withLog(async (path) => {
    const many = Array.from({ length: 20_000 }, (_, i) => line(1, `line ${i} ${"x".repeat(20)}`));
    await Deno.writeTextFile(path, many.join(""));
    const got = await texts(path, { tail: 2000 });
    assert.equal(got.length, 2000);
    assert.match(got[0], /^line 18000 /);
    assert.match(got[1999], /^line 19999 /);
  }));

Deno.test("following sees what is appended, through rotations, until the end", () =>
  withLog(async (path) => {
    await Deno.writeTextFile(path, line(1, "0"));
    let ended = false;
    const got: string[] = [];
    const reading = (async () => {
      for await (const frames of readLog(path, "a-0", { follow: true, ended: () => ended })) {
        got.push(...frames.map((frame) => frame.line));
      }
    })();
    const append = (file: Deno.FsFile, text: string) =>
      file.write(new TextEncoder().encode(line(2, text)));
    let writer = await Deno.open(path, { append: true });
    for (let i = 1; i <= 60; i++) {
      await append(writer, String(i));
      // A reader keeps up with one rotation at a time: it is in the new file by now.
      if (i % 20 === 1) {
        while (got.at(-1) !== String(i)) await new Promise((resolve) => setTimeout(resolve, 10));
      }
      if (i % 20 === 0) {
        await rotateLog(path, 1, async () => {
          // As a monitor does it: on into the old file, then the new one.
          await append(writer, `${i}+`);
          writer.close();
          writer = await Deno.open(path, { append: true, create: true });
        });
      }
    }
    writer.close();
    ended = true;
    await reading;
    const expected = Array.from({ length: 61 }, (_, i) => String(i)).flatMap((text) =>
      Number(text) > 0 && Number(text) % 20 === 0 ? [text, `${text}+`] : [text]
    );
    assert.deepEqual(got, expected);
  }));

Deno.test("following that begins in the middle of a rotation misses nothing, and nothing comes twice", async () => {
  for (const tail of [undefined, 9]) {
    await withLog(async (path) => {
      await Deno.writeTextFile(`${path}.1`, line(1, "0"));
      const got: string[] = [];
      let ended = false;
      const reading = (async () => {
        for await (
          const frames of readLog(path, "a-0", {
            follow: true,
            tail,
            ended: () => ended,
          })
        ) {
          got.push(...frames.map((frame) => frame.line));
        }
      })();
      const until = async (text: string) => {
        while (got.at(-1) !== text) await new Promise((resolve) => setTimeout(resolve, 10));
      };
      await until("0");
      await Deno.writeTextFile(`${path}.1`, line(2, "1"), { append: true });
      await Deno.writeTextFile(path, line(3, "2"));
      await until("2");
      ended = true;
      await reading;
      assert.deepEqual(got, ["0", "1", "2"]);
    });
  }
});

function heapAfterCollection(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  return Deno.memoryUsage().heapUsed;
}

const frameAt = (second: number): LogFrame => ({
  time: normalTime(time(second)),
  instance: "x",
  stream: "stdout",
  line: String(second),
});

Deno.test("several logs merge by time", async () => {
  async function* frames(...batches: number[][]): AsyncGenerator<LogFrame[]> {
    for (const seconds of batches) yield seconds.map(frameAt);
  }
  const merged = await Array.fromAsync(
    mergeLogs([frames([1, 4], [], [6]), frames(), frames([2], [3, 7, 8])], false),
  );
  assert.deepEqual(merged.flat().map((frame) => frame.line), ["1", "2", "3", "4", "6", "7", "8"]);
});

Deno.test("logs that are followed come as they come; a quiet one gathers nothing, and a failure ends all", async () => {
  const FRAMES = 100_000;
  const failing = Promise.withResolvers<never>();
  async function* quiet(): AsyncGenerator<LogFrame[]> {
    yield [frameAt(1)];
    await failing.promise;
  }
  const frames = [frameAt(2)];
  async function* busy(): AsyncGenerator<LogFrame[]> {
    for (let count = 0; count < FRAMES; count++) yield frames;
  }
  const merged = mergeLogs([quiet(), busy()], true);
  assert.deepEqual((await merged.next()).value, [frameAt(1)]);
  const before = heapAfterCollection();
  for (let count = 0; count < FRAMES; count++) assert.equal((await merged.next()).value, frames);
  const more = heapAfterCollection() - before;
  assert.ok(more < 50 * FRAMES, `${more} bytes more`);
  failing.reject(new Error("it broke"));
  await assert.rejects(merged.next(), /it broke/);
});

import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeRaw, encodeRaw } from "../base/raw_string.ts";
import { SvcError } from "../base/errors.ts";
import type { TarHeader } from "./tar.ts";
import { TarParser } from "./tar_parser.ts";
import { readTar } from "./tar_read.ts";
import { runs } from "../../test/fixtures/property.ts";
import { type TarFields, tarHeader, TarWriter, writeTar } from "./tar_write.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const collect = async (stream: ReadableStream<Uint8Array>) =>
  new Uint8Array(await new Response(stream as BodyInit).arrayBuffer());

type Entry = TarFields & { body?: Uint8Array };

async function parse(
  archive: Uint8Array,
  step = archive.length || 1,
): Promise<{ header: TarHeader; body: Uint8Array }[]> {
  const parts = function* () {
    for (let at = 0; at < archive.length; at += step) yield archive.subarray(at, at + step);
  };
  const found = [];
  for await (const { header, body } of readTar(ReadableStream.from(parts()))) {
    found.push({ header, body: await collect(body) });
  }
  return found;
}

/** Runs the push parser; how much it was told, and what it threw. */
function push(archive: Uint8Array): { events: number; error?: unknown } {
  let events = 0;
  const count = () => void events++;
  const parser = new TarParser({ entry: count, data: count, hole: count, end: count });
  try {
    parser.push(archive);
    parser.finish();
    return { events };
  } catch (error) {
    return { events, error };
  }
}

const name = fc.array(
  fc.oneof(
    fc.stringMatching(/^[a-z0-9._ -]{1,30}$/),
    fc.stringMatching(/^[a-z]{90,200}$/),
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 10 }).filter((s) => !/[\/\0]/.test(s)),
    fc.uint8Array({ minLength: 1, maxLength: 8 }).map(decodeRaw).filter((s) => !/[\/\0]/.test(s)),
  ),
  { minLength: 1, maxLength: 5 },
).map((parts) => parts.join("/"));

const entry: fc.Arbitrary<Entry> = fc.record({
  path: name,
  type: fc.constantFrom("file", "directory", "symlink", "hardlink", "char", "block", "fifo"),
  mode: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.integer({ min: 0, max: 0xfffffffe }),
  gid: fc.integer({ min: 0, max: 0xfffffffe }),
  mtime: fc.oneof(
    fc.integer({ min: -2_000_000_000, max: 5_000_000_000 }),
    fc.integer({ min: 0, max: 2 ** 40 }),
  ),
  mtimeNs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 999_999_999 })),
  linkpath: name,
  devMajor: fc.integer({ min: 0, max: 4095 }),
  devMinor: fc.integer({ min: 0, max: 1_048_575 }),
  xattrs: fc.dictionary(
    fc.stringMatching(/^user\.[a-z]{1,10}$/),
    fc.uint8Array({ maxLength: 300 }),
    { maxKeys: 3 },
  ).map((all) => new Map(Object.entries(all))),
  body: fc.uint8Array({ maxLength: 2000 }),
}).map((made) => {
  const link = made.type === "symlink" || made.type === "hardlink";
  const device = made.type === "char" || made.type === "block";
  return {
    ...made,
    linkpath: link ? made.linkpath : "",
    devMajor: device ? made.devMajor : 0,
    devMinor: device ? made.devMinor : 0,
    body: made.type === "file" ? made.body : undefined,
  };
});

Deno.test("tar: what is written is read again, whatever the chunks", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(entry, { maxLength: 5 }),
      fc.integer({ min: 1, max: 3000 }),
      async (entries, step) => {
        const archive = await collect(writeTar(entries));
        assert.equal(archive.length % 512, 0);
        const found = await parse(archive, step);
        assert.equal(found.length, entries.length);
        for (const [i, { body, ...want }] of entries.entries()) {
          const { header } = found[i];
          assert.deepEqual(
            { ...header, xattrs: new Map([...header.xattrs].sort()) },
            { ...want, size: body?.length ?? 0, xattrs: new Map([...want.xattrs!].sort()) },
          );
          assert.deepEqual([...found[i].body], [...body ?? []]);
        }
      },
    ),
    runs(60),
  );
});

Deno.test("tar: damaged archives end in archive_invalid or in entries, never in a hang", async () => {
  const archive = await collect(writeTar([
    {
      path: "a".repeat(150),
      type: "file",
      body: bytes("x".repeat(700)),
      xattrs: new Map([["user.a", bytes("b")]]),
    },
    { path: "d", type: "directory", mtimeNs: 5 },
    { path: "l", type: "symlink", linkpath: "é" },
  ]));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(archive.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 }),
      fc.nat(archive.length),
      (changes, length) => {
        const damaged = archive.slice(0, length);
        for (const [at, value] of changes) if (at < length) damaged[at] = value;
        const { error, events } = push(damaged);
        assert.ok(events < 100);
        if (error !== undefined) {
          assert.ok(error instanceof SvcError, String(error));
          assert.equal(error.code, "archive_invalid");
        }
      },
    ),
    runs(2000),
  );
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 512, maxLength: 4096 }), (noise) => {
      const { error } = push(noise);
      assert.ok(noise.every((byte) => byte === 0) || error instanceof SvcError);
    }),
    runs(100),
  );
});

/** A header with its checksum made right again after `change`. */
function forged(fields: TarFields, change: (block: Uint8Array) => void): Uint8Array {
  const block = tarHeader(fields).slice();
  change(block);
  block.fill(32, 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.set(bytes(sum.toString(8).padStart(6, "0") + "\0 "), 148);
  return block;
}

const pax = (records: string, type = "x") =>
  Buffer.concat([
    forged({ path: "pax", type: "file", size: bytes(records).length }, (block) => {
      block[156] = type.charCodeAt(0);
    }),
    bytes(records.padEnd(Math.ceil(bytes(records).length / 512) * 512, "\0")),
  ]);

/** One pax record with its right length (of two digits). */
function record(key: string, value: string): string {
  const length = key.length + value.length + 5;
  assert.ok(length >= 10 && length < 100);
  return `${length} ${key}=${value}\n`;
}

Deno.test("tar: every cut of an archive is an error, but at its entries' ends", async () => {
  const archive = await collect(
    writeTar([{ path: "a", type: "file", body: bytes("hello"), mtimeNs: 1 }]),
  );
  const good: number[] = [];
  for (let length = 0; length <= archive.length; length++) {
    const { error } = push(archive.subarray(0, length));
    if (error === undefined) good.push(length);
    else assert.equal((error as SvcError).code, "archive_invalid");
  }
  // Nothing; after the whole entry (pax header, header, body); after each zero block.
  assert.deepEqual(good, [0, 2048, 2560, 3072]);
});

Deno.test("tar: what no archive may say is refused", () => {
  const file: TarFields = { path: "a", type: "file" };
  const cases: Record<string, Uint8Array> = {
    "a header longer than the bound": forged({ path: "a", type: "file", size: 9 << 20 }, (b) => {
      b[156] = "x".charCodeAt(0);
    }),
    "a negative size": forged(file, (b) => b.fill(255, 124, 136)),
    "a size past 2^53": forged(file, (b) => {
      b.fill(255, 124, 136);
      b[124] = 0x80;
    }),
    "letters in a number": forged(file, (b) => b.set(bytes("12x"), 124)),
    "an unknown type": forged(file, (b) => b[156] = "Q".charCodeAt(0)),
    "a pax length that lies": Buffer.concat([pax("99 path=x\n"), tarHeader(file)]),
    "a pax length of zero": Buffer.concat([pax("0 path=x\n"), tarHeader(file)]),
    "a NUL in a pax path": Buffer.concat([pax("12 path=a\0b\n"), tarHeader(file)]),
    "a pax size that is not a number": Buffer.concat([pax("10 size=x\n"), tarHeader(file)]),
    "a sparse map out of order": Buffer.concat([
      pax(record("GNU.sparse.size", "10") + record("GNU.sparse.map", "4,0,2,0,9,0")),
      tarHeader(file),
    ]),
    "data after an end mark": Buffer.concat([new Uint8Array(512), tarHeader(file)]),
  };
  for (const [what, archive] of Object.entries(cases)) {
    const { error } = push(archive);
    assert.ok(error instanceof SvcError && error.code === "archive_invalid", what);
  }
});

Deno.test("tar: a huge hole costs nothing", () => {
  const size = Number.MAX_SAFE_INTEGER;
  const archive = Buffer.concat([
    pax(record("GNU.sparse.size", String(size)) + record("GNU.sparse.map", "0,0")),
    tarHeader({ path: "a", type: "file" }),
    new Uint8Array(1024),
  ]);
  let hole = 0;
  const parser = new TarParser({
    entry: (header) => assert.equal(header.size, size),
    data: () => assert.fail(),
    hole: (length) => hole += length,
    end: () => {},
  });
  parser.push(archive);
  parser.finish();
  assert.equal(hole, size);
});

Deno.test("tar: bodies that are not read are skipped, and late readers are told", async () => {
  const archive = await collect(writeTar([
    { path: "a", type: "file", body: bytes("x".repeat(5000)) },
    { path: "b", type: "file", body: bytes("second") },
  ]));
  const bodies: ReadableStream<Uint8Array>[] = [];
  const seen: string[] = [];
  for await (const { header, body } of readTar(new Blob([archive]).stream())) {
    seen.push(header.path);
    bodies.push(body);
    if (header.path === "b") assert.equal(await new Response(body as BodyInit).text(), "second");
  }
  assert.deepEqual(seen, ["a", "b"]);
  await assert.rejects(new Response(bodies[0] as BodyInit).text(), /moved past a/);
});

Deno.test("tar: leaving the loop cancels the source", async () => {
  const archive = await collect(
    writeTar([{ path: "a", type: "file" }, { path: "b", type: "file" }]),
  );
  let cancelled = false;
  const source = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(archive),
    cancel: () => {
      cancelled = true;
    },
  });
  for await (const { header } of readTar(source)) {
    assert.equal(header.path, "a");
    break;
  }
  assert.ok(cancelled);
});

Deno.test("tar: the writer refuses a body that is not as long as it said", async () => {
  for (const size of [3, 9]) {
    const body = ReadableStream.from([bytes("hello")]);
    await assert.rejects(
      collect(writeTar([{ path: "a", type: "file", size, body }, { path: "b", type: "file" }])),
      (error) => error instanceof SvcError && error.code === "argument_invalid",
    );
  }
  assert.throws(() => tarHeader({ path: "a\0b", type: "file" }), SvcError);
});

Deno.test("raw strings: any bytes survive", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (data) => {
      assert.deepEqual([...encodeRaw(decodeRaw(data))], [...data]);
    }),
    runs(100),
  );
});

Deno.test("tar: a sparse file's holes are no bytes in the archive, and zeros or lengths for who reads it", async () => {
  const writer = new TarWriter();
  const segments = [{ offset: 3, length: 2 }, { offset: 1_000_000, length: 3 }];
  const size = 2_000_000;
  const content = bytes("ABtai");
  const parts = () => [
    writer.header({ path: "d/ü".repeat(60), type: "file", size, mode: 0o751, uid: 7 }, segments),
    content.subarray(0, 2),
    writer.data(content.subarray(0, 2)),
    content.subarray(2),
    writer.data(content.subarray(2)),
    writer.header({ path: "next", type: "file", size: 1 }),
    bytes("x"),
    writer.data(bytes("x")),
    writer.end(),
  ];
  const archive = await collect(ReadableStream.from(parts()));
  assert(archive.length < 10_000);
  const [{ header, body }, next] = await parse(archive, 100);
  assert.equal(header.path, "d/ü".repeat(60));
  assert.deepEqual([header.size, header.mode, header.uid], [size, 0o751, 7]);
  const whole = new Uint8Array(size);
  whole.set(content.subarray(0, 2), 3);
  whole.set(content.subarray(2), 1_000_000);
  assert.deepEqual(Buffer.compare(body, whole), 0);
  assert.deepEqual([next.header.path, next.body], ["next", bytes("x")]);
  const told: (string | number)[] = [];
  for await (const { parts } of readTar(ReadableStream.from([archive]))) {
    for await (const part of parts()) {
      told.push(typeof part === "number" ? part : new TextDecoder().decode(part));
    }
  }
  assert.deepEqual(told, [3, "AB", 999_995, "tai", 999_997, "x"]);
  const early: string[] = [];
  for await (const { header, parts } of readTar(ReadableStream.from([archive]))) {
    early.push(header.path);
    for await (const _part of parts()) break;
  }
  assert.deepEqual(early.at(-1), "next");
  assert.throws(() =>
    writer.header({ path: "f", type: "file", size: 9 }, segments) && writer.end()
  );
});

Deno.test("tar: global pax records are bounded in total, and a later one replaces an earlier one", async () => {
  const big = (key: string, size: number) => {
    const rest = ` ${key}=${"v".repeat(size)}\n`;
    const length = rest.length + 6;
    return pax(`${length}${rest}`, "g");
  };
  const file = tarHeader({ path: "a", type: "file", size: 0 });
  const end = new Uint8Array(1024);
  const same = Array.from({ length: 8 }, () => big("comment", 200_000));
  assert.equal(push(Buffer.concat([...same, file, end])).error, undefined);
  const others = Array.from({ length: 8 }, (_, at) => big(`comment${at}`, 200_000));
  const { error } = push(Buffer.concat([...others, file, end]));
  assert.ok(error instanceof SvcError && error.code === "archive_invalid", String(error));
  assert.match(error.message, /global headers are longer than 1048576 bytes/);
  const paths = pax(record("uname", "one") + record("path", "first"), "g");
  const later = pax(record("path", "second"), "g");
  const [{ header }] = await parse(Buffer.concat([paths, later, file, end]));
  assert.equal(header.path, "second");
});

import assert from "node:assert/strict";
import { bothEnds, COHERENCES, type Ends } from "./testing.ts";
import { BlockBudget } from "./budget.ts";
import { OPEN, type OpenFile } from "../files/node.ts";
import { ERRNO, type FileError } from "../files/stat.ts";
import { pattern } from "../testing.ts";
import type { Writer } from "../ninep/messages.ts";
import { BLOCK, putProofs, readVersion } from "./protocol.ts";

const SIZE = 300_000;
const { RDWR, TRUNC } = OPEN;
const stale = (error: unknown) => (error as FileError).errno === ERRNO.ESTALE;

async function opened(ends: Ends, content: Uint8Array = pattern(SIZE)): Promise<OpenFile> {
  await Deno.writeFile(`${ends.folder}/file`, content);
  return await (await ends.root.walk("file")).open(RDWR);
}

async function bytes(file: OpenFile, offset: number, size: number): Promise<Uint8Array> {
  const into = new Uint8Array(size);
  return into.subarray(0, await file.read(offset, into));
}

const disk = (ends: Ends) => Deno.readFile(`${ends.folder}/file`);
const count = ({ asked }: Ends, type: number) => asked.get(type) ?? 0;

/** Changes the file as another program of the caller's does. */
async function change(ends: Ends, offset: number, text: string): Promise<void> {
  using file = await Deno.open(`${ends.folder}/file`, { write: true });
  await file.seek(offset, Deno.SeekMode.Start);
  await file.write(new TextEncoder().encode(text));
}

for (const [name, options] of Object.entries(COHERENCES)) {
  const test = (what: string, fn: (ends: Ends) => Promise<void>) =>
    Deno.test(`blocks, ${name}: ${what}`, async () => {
      await using ends = await bothEnds(options);
      await fn(ends);
    });

  test("what was read is not fetched again; what was written is read, and synced", async (ends) => {
    const file = await opened(ends);
    const want = pattern(SIZE);
    assert.deepEqual(await bytes(file, 70_000, 5000), want.subarray(70_000, 75_000));
    const fetched = count(ends, BLOCK.READ);
    assert.deepEqual(await bytes(file, 70_100, 4000), want.subarray(70_100, 74_100));
    assert.equal(count(ends, BLOCK.READ), fetched);
    for (const [at, size] of [[69_000, 9000], [0, 10], [SIZE - 3, 100], [SIZE + 9000, 20]]) {
      await file.write!(at, new Uint8Array(size).fill(7));
      assert.deepEqual(await bytes(file, at, size), new Uint8Array(size).fill(7));
    }
    await file.sync!(false);
    const found = await disk(ends);
    assert.equal(found.length, SIZE + 9020);
    assert.deepEqual(await bytes(file, 0, found.length), found);
    await file.close();
  });

  test("a change of the caller's is seen when nothing was written", async (ends) => {
    const file = await opened(ends);
    await bytes(file, 0, SIZE);
    await change(ends, 100_000, "changed");
    for (let seen = ""; seen !== "changed";) {
      seen = new TextDecoder().decode(await bytes(file, 100_000, 7));
    }
    await file.write!(5, new TextEncoder().encode("mine"));
    await file.sync!(false);
    const text = new TextDecoder().decode((await disk(ends)).subarray(100_000, 100_007));
    assert.equal(text, "changed");
    assert.equal(ends.told(), 0);
    await file.close();
  });

  test("a change of the caller's under a write is refused, and told, and stays", async (ends) => {
    const file = await opened(ends);
    await bytes(file, 0, SIZE);
    await change(ends, 100_000, "changed");
    const before = await disk(ends);
    await file.write!(100_000, new Uint8Array(10));
    await file.write!(200_000, new Uint8Array(10));
    await assert.rejects(async () => await file.sync!(false), stale);
    // It has missed one of its writes: it gets no further one to the file.
    await assert.rejects(async () => await file.write!(0, new Uint8Array(10)), stale);
    await assert.rejects(async () => await file.flush!(), stale);
    assert.deepEqual(await disk(ends), before);
    assert.deepEqual(await bytes(file, 99_000, 3000), before.subarray(99_000, 102_000));
    assert.equal(ends.told(), 1);
    await file.close();
    const again = await (await ends.root.walk("file")).open(RDWR);
    await again.write!(100_000, new Uint8Array(10));
    await again.sync!(false);
    assert.deepEqual((await disk(ends)).subarray(100_000, 100_010), new Uint8Array(10));
    await again.close();
  });

  test("a change that leaves size and time as they were is found by its content", async (ends) => {
    const file = await opened(ends);
    await bytes(file, 0, SIZE);
    const { mtime } = await Deno.stat(`${ends.folder}/file`);
    const touch = async () => {
      await Deno.utime(`${ends.folder}/file`, mtime!, mtime!);
    };
    await touch();
    await bytes(file, 0, SIZE);
    // Milliseconds are all that can be set here, so that both times are alike.
    for (let n = 0; n < 2; n++) await new Promise((resolve) => setTimeout(resolve, 110));
    await bytes(file, 0, SIZE);
    if (options.defer) await file.write!(100_000, new Uint8Array(10).fill(1));
    if (options.defer) await file.flush!();
    const { mtime: kept } = await Deno.stat(`${ends.folder}/file`);
    await change(ends, 100_003, "changed");
    await Deno.utime(`${ends.folder}/file`, kept!, kept!);
    if (!options.defer) await file.write!(100_000, new Uint8Array(10).fill(1));
    await assert.rejects(async () => await file.sync!(false), stale);
    const text = new TextDecoder().decode((await disk(ends)).subarray(100_003, 100_010));
    assert.equal(text, "changed");
    await file.close();
  });

  test("the end of the connection ends every wait", async (ends) => {
    const file = await opened(ends, pattern(3_000_000));
    await bytes(file, 0, 100);
    const calls = [
      ...Array.from({ length: 30 }, (_, n) => bytes(file, n * 90_000, 9000)),
      file.write!(5, new Uint8Array(100_000)),
      file.sync!(false),
      file.truncate!(7),
      file.write!(5, new Uint8Array(100_000)),
      file.lock!({ type: "write", start: 0n, length: 1n, owner: "a" }),
      file.flush!(),
    ].map((call) => Promise.resolve(call));
    ends.cut();
    const late = new Promise((_, reject) => {
      const timer = setTimeout(() => reject(new Error("a call waits for ever")), 60_000);
      Promise.allSettled(calls).then(() => clearTimeout(timer));
    });
    await Promise.race([Promise.allSettled(calls), late]);
    await assert.rejects(async () => await file.sync!(false));
    await assert.rejects(() => bytes(file, 2_500_000, 4096));
  });
}

Deno.test("blocks: times, sizes and cuts that the mount asks for are its own changes", async () => {
  await using ends = await bothEnds();
  const file = await opened(ends);
  const node = await ends.root.walk("file");
  await bytes(file, 0, SIZE);
  await file.write!(10, new Uint8Array(10));
  await node.writer!.change({ mtime: { s: 1000, ns: 5 } });
  await file.write!(20, new Uint8Array(10));
  await node.writer!.change({ mode: 0o600 });
  await file.truncate!(5000);
  await file.write!(9000, new Uint8Array([1]));
  await node.writer!.change({ size: 4097 });
  await node.writer!.change({ size: 9001 });
  assert.deepEqual(await bytes(file, 4090, 20_000), (await disk(ends)).subarray(4090));
  await file.write!(30, new Uint8Array(10));
  await file.sync!(true);
  assert.equal(ends.told(), 0);
  const cut = await node.open(RDWR | TRUNC);
  assert.equal((await bytes(file, 0, 10)).length, 0);
  await cut.write!(0, new Uint8Array([1, 2]));
  await cut.sync!(false);
  assert.deepEqual(await bytes(file, 0, 10), new Uint8Array([1, 2]));
  const made = await ends.root.writer!.create("file", RDWR | TRUNC, 0o600);
  assert.equal((await bytes(file, 0, 10)).length, 0);
  assert.equal(ends.told(), 0);
  for (const one of [file, cut, made.file]) await one.close();
});

Deno.test("blocks: what is no request of a mount's is refused, and nothing is written", async () => {
  await using ends = await bothEnds();
  const file = await opened(ends);
  const { client } = ends;
  const before = await disk(ends);
  const fid = await client.walk(await client.attach(""), ["file"]);
  const ask = (type: number, fill: (request: Writer) => Writer) =>
    client.ask(type, fill, readVersion);
  const proof = (length: number) => [{ offset: 0, length, hash: new Uint8Array(16) }];
  const refused: [number, number, (request: Writer) => Writer][] = [
    // It is not open.
    [ERRNO.EOPNOTSUPP, BLOCK.LOOK, (to) => putProofs(to.u32(fid).u64(0), [])],
    [ERRNO.EBADF, BLOCK.LOOK, (to) => putProofs(to.u32(99_999).u64(0), [])],
  ];
  const open = await client.walk(await client.attach(""), ["file"]);
  await client.open(open, RDWR);
  const bytes = new Uint8Array(10);
  const write = (epoch: number, length?: number) => (to: Writer) =>
    putProofs(to.u32(open).u64(epoch).u64(0), length ? proof(length) : []).u32(10).raw(bytes);
  refused.push(
    [ERRNO.EINVAL, BLOCK.LOOK, (to) => putProofs(to.u32(open).u64(0), proof(1 << 30))],
    [ERRNO.ESTALE, BLOCK.WRITE, write(0)],
    [ERRNO.ESTALE, BLOCK.WRITE, write(12345)],
    [ERRNO.ESTALE, BLOCK.WRITE, write(1, 4096)],
    [ERRNO.ESTALE, BLOCK.CUT, (to) => to.u32(open).u64(0).u64(5)],
  );
  for (const [errno, type, fill] of refused) await assert.rejects(() => ask(type, fill), { errno });
  assert.deepEqual(await disk(ends), before);
  await file.close();
  // A message that is shorter than it says ends the connection.
  await assert.rejects(() => ask(BLOCK.LOOK, (to) => to.u32(open).u64(0).u32(5000)));
});

Deno.test("blocks: what two open files write is in the order in which they write", async () => {
  await using ends = await bothEnds();
  const one = await opened(ends, new Uint8Array(100));
  const two = await (await ends.root.walk("file")).open(OPEN.WRONLY | OPEN.APPEND);
  for (let n = 0; n < 200; n++) {
    await [one, two][n % 2].write!(n % 50, new Uint8Array(20).fill(n));
    assert.deepEqual(await bytes(one, n % 50, 20), new Uint8Array(20).fill(n));
  }
  const want = await bytes(one, 0, 100);
  await two.sync!(false);
  assert.deepEqual(await disk(ends), want);
  await one.close();
  await two.close();
});

Deno.test("blocks: few of them fit, and nothing is lost", async () => {
  for (const options of Object.values(COHERENCES)) {
    await using ends = await bothEnds(options, { budget: new BlockBudget(3) });
    const want = pattern(SIZE);
    const file = await opened(ends, want);
    for (let n = 0; n < 150; n++) {
      const at = (n * 7919 * 31) % SIZE;
      if (n % 3) {
        await file.write!(at, new Uint8Array(50).fill(n).subarray(0, SIZE - at));
        want.fill(n, at, at + 50);
      } else assert.deepEqual(await bytes(file, at, 9000), want.subarray(at, at + 9000));
      if (n % 40 === 0) await file.sync!(false);
    }
    await file.sync!(false);
    assert.deepEqual(await disk(ends), want);
    await file.close();
  }
});

Deno.test("blocks: a file that is gone at the caller is not opened, by whatever name it was kept", async () => {
  await using ends = await bothEnds();
  const file = await opened(ends);
  const kept = await ends.root.walk("file");
  await Deno.remove(`${ends.folder}/file`);
  await assert.rejects(async () => await kept.open(RDWR), stale);
  await file.close();
});

/** Reads, writes, cuts of files and of connections, all at once, over a connection whose answers take their time. */
import assert from "node:assert/strict";
import { eventually } from "../../../test/waits.ts";
import { asFileError, OPEN, type OpenFile } from "../files/node.ts";
import { BlockBudget } from "./budget.ts";
import { BLOCK } from "./protocol.ts";
import { bothEnds, COHERENCES, type Ends } from "./testing.ts";
import { ERRNO } from "../files/stat.ts";

const SEED = Number(Deno.env.get("SVC_TEST_SEED") ?? 7);

/** Numbers that repeat from run to run. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % below;
  };
}

const CELL = 1000;
const CELLS = 200;

const open = async (ends: Ends) => await (await ends.root.walk("file")).open(OPEN.RDWR);

/** Fails where the work takes longer than any wait may. */
async function within<R>(ms: number, work: Promise<R>): Promise<R> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("something waits for ever")), ms);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Each cell holds one number over and over, which only grows. */
async function readCell(file: OpenFile, cell: number): Promise<number> {
  const bytes = new Uint8Array(CELL);
  assert.equal(await file.read(cell * CELL, bytes), CELL);
  return bytes[0] + 256 * bytes[1];
}

function filled(value: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(CELL);
  for (let n = 0; n < CELL; n++) bytes[n] = n % 2 ? value >> 8 : value & 255;
  return bytes;
}

for (const [name, options] of Object.entries(COHERENCES)) {
  Deno.test(`blocks, ${name}: a read that begins after a write sees it, whatever is under way`, async () => {
    const next = random(SEED);
    const delay = () => next(4);
    await using ends = await bothEnds(options, { budget: new BlockBudget(3), delay });
    await Deno.writeFile(`${ends.folder}/file`, new Uint8Array(CELL * CELLS));
    const files = [await open(ends), await open(ends)];
    const written = new Array<number>(CELLS).fill(0);
    const writer = async (own: number) => {
      for (let n = 0; n < 150; n++) {
        const cell = next(CELLS / 2) * 2 + own;
        await files[own].write!(cell * CELL, filled(written[cell] + 1));
        written[cell]++;
        if (n % 50 === 49) await files[own].sync!(true);
      }
    };
    const reader = async (own: number) => {
      for (let n = 0; n < 150; n++) {
        const cell = next(CELLS);
        const least = written[cell];
        const found = await readCell(files[own], cell);
        assert.ok(found >= least, `cell ${cell}: ${found}, and ${least} was written before`);
      }
    };
    const all = [writer(0), writer(1), reader(0), reader(1), reader(0)];
    await within(60_000, Promise.all(all));
    for (const file of files) await file.sync!(false);
    const disk = await Deno.readFile(`${ends.folder}/file`);
    for (let cell = 0; cell < CELLS; cell++) {
      assert.equal(disk[cell * CELL] + 256 * disk[cell * CELL + 1], written[cell], `cell ${cell}`);
    }
    assert.equal(ends.told(), 0);
    for (const file of files) await file.close();
  });
}

Deno.test("blocks: a connection that is cut at any moment leaves nobody waiting, and a prefix", async () => {
  const options = Object.values(COHERENCES);
  for (let turn = 0; turn < 60; turn++) {
    const next = random(1000 * SEED + turn);
    const ends = await bothEnds(options[turn % options.length], { delay: () => next(3) });
    await Deno.writeFile(`${ends.folder}/file`, new Uint8Array(CELL * CELLS));
    const files = [await open(ends), await open(ends)];
    let [sent, synced] = [0, 0];
    // One after the other over all cells, so that what is there shows how many were done.
    const writer = async () => {
      for (; sent < CELLS; sent++) {
        await files[0].write!(sent * CELL, filled(1));
        if (sent % 16 === 15) {
          await files[0].sync!(false);
          synced = sent + 1;
        }
      }
    };
    const reader = async (own: number) => {
      for (let n = 0; n < 300; n++) await readCell(files[own], next(CELLS));
    };
    const calls = [writer(), reader(0), reader(1), reader(1)].map((call) =>
      call.catch((error) => assert.equal(asFileError(error).errno, 5, String(error)))
    );
    const cutting = setTimeout(() => ends.cut(), next(60));
    await within(60_000, Promise.all(calls));
    clearTimeout(cutting);
    const disk = await Deno.readFile(`${ends.folder}/file`);
    const there = Array.from({ length: CELLS }, (_, cell) => disk[cell * CELL]);
    const first = there.indexOf(0);
    const count = first < 0 ? CELLS : first;
    assert.ok(there.slice(count).every((value) => value === 0), `turn ${turn}: not a prefix`);
    assert.ok(count >= synced, `turn ${turn}: ${synced} were synced, ${count} are there`);
    await ends[Symbol.asyncDispose]();
  }
});

Deno.test("blocks: a file that is closed while another opens it can be written to", async () => {
  await using ends = await bothEnds({}, { delay: () => 20 });
  await Deno.writeTextFile(`${ends.folder}/file`, "one");
  const node = await ends.root.walk("file");
  const first = await node.open(OPEN.RDWR);
  const opening = node.open(OPEN.RDWR);
  await new Promise((resolve) => setImmediate(resolve));
  const closed = first.close();
  const second = await opening;
  await within(60_000, Promise.resolve(second.write!(0, new TextEncoder().encode("two"))));
  await second.sync!(false);
  await Promise.all([closed, second.close()]);
  assert.equal(await Deno.readTextFile(`${ends.folder}/file`), "two");
});

Deno.test("blocks: a name that leads to another file by now keeps nothing of that as if it were the old", async () => {
  await using ends = await bothEnds({}, { delay: () => 5 });
  const path = `${ends.folder}/file`;
  await Deno.writeTextFile(path, "one");
  await (await ends.root.list()).close();
  const old = await ends.root.walk("file");
  // No news of it can have come: nothing is heard between these lines.
  Deno.writeTextFileSync(`${path}.new`, "another");
  Deno.renameSync(`${path}.new`, path);
  await assert.rejects(async () => await old.open(OPEN.RDWR), { errno: ERRNO.ESTALE });
  assert.equal(ends.ahead.keptOf(old.id).open.size, 0);
  const file = await (await ends.root.walk("file")).open(OPEN.RDWR);
  const into = new Uint8Array(10);
  const size = await file.read(0, into);
  assert.equal(new TextDecoder().decode(into.subarray(0, size)), "another");
  await file.close();
});

Deno.test("blocks: names and attributes are known, and a new file is made and written to in a round trip", async () => {
  await using ends = await bothEnds({ defer: true });
  await Deno.writeTextFile(`${ends.folder}/file`, "one");
  await (await ends.root.list()).close();
  const made = await ends.root.writer!.create("new", OPEN.RDWR | OPEN.EXCL, 0o644);
  const all = () => [...ends.asked.values()].reduce((sum, one) => sum + one, 0);
  const looks = ends.asked.get(BLOCK.LOOK);
  await made.file.write!(0, new Uint8Array(10));
  assert.equal(ends.asked.get(BLOCK.LOOK), looks, "it was looked at once more");
  await made.file.sync!(false);
  // The news of a change come with its answer, or soon after it.
  await eventually("all is known", async () => {
    const before = all();
    assert.equal((await (await ends.root.walk("file")).stat()).size, 3);
    assert.equal((await (await ends.root.walk("new")).stat()).size, 10);
    await assert.rejects(async () => await ends.root.walk("none"), { errno: ERRNO.ENOENT });
    return all() === before;
  });
  await made.file.close();
});

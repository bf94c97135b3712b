/** What a crash may leave behind, and what the next start makes of it. */
import assert from "node:assert/strict";
import { exists } from "../base/fs.ts";
import { createLogger } from "../base/log.ts";
import { Records } from "./records.ts";

const linux = Deno.build.os === "linux";
const log = createLogger({ level: "error", format: "text", write: (line) => console.error(line) });

async function withRecords(
  work: (records: Records, reopen: () => Promise<Records>) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "svc-records-" });
  try {
    await work(await Records.open(root, log), () => Records.open(root, log));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** A committed snapshot on disk; `unsynced` as the boot it was written in. */
async function commit(records: Records, name: string, parent?: string, unsynced?: string) {
  const entry = records.reserve({ id: `id-${name}`, parent });
  await Deno.mkdir(records.tree(entry.record.dir), { recursive: true });
  const { id: _id, ...rest } = entry.record;
  await records.save(entry, { ...rest, names: [name], unsynced }, true);
  return entry.record.dir;
}

const names = (records: Records) =>
  [...records.entries.values()].flatMap((entry) => entry.record.names).sort();

Deno.test({ name: "records: half-made folders go at the next start", ignore: !linux }, async () => {
  await withRecords(async (records, reopen) => {
    const whole = await commit(records, "whole");
    for (const [dir, meta] of [["k1", undefined], ["k2", ""], ["k3", "{"], ["k4", "{}"]]) {
      await Deno.mkdir(`${records.tree(dir!)}/sub`, { recursive: true });
      if (meta !== undefined) {
        await Deno.writeTextFile(`${records.folder(dir!)}/meta.json`, meta);
      }
    }
    await Deno.mkdir(`${records.folder("k5")}/meta.json`, { recursive: true });
    await Deno.mkdir(records.tree("k6"), { recursive: true });
    await Deno.writeTextFile(`${records.folder("k6")}/meta.json`, '{"dir":"k6","names":null}');
    await Deno.mkdir(`${records.root}/trash/old/sub`, { recursive: true });
    await Deno.writeTextFile(`${records.root}/tmp/layer`, "");
    const again = await reopen();
    assert.deepEqual(names(again), ["whole"]);
    assert.deepEqual([...Deno.readDirSync(`${again.root}/s`)].map((e) => e.name), [whole]);
    for (const empty of ["trash", "tmp"]) {
      assert.deepEqual([...Deno.readDirSync(`${again.root}/${empty}`)], [], empty);
    }
    assert.ok(!await exists(again.folder(again.reserve({ id: "new" }).record.dir)));
  });
});

Deno.test({
  name: "records: what was not on disk when the machine went down goes, with what lies on it",
  ignore: !linux,
}, async () => {
  await withRecords(async (records, reopen) => {
    const base = await commit(records, "base");
    const lost = await commit(records, "lost", base, "another-boot");
    const child = await commit(records, "child", lost);
    await commit(records, "grandchild", child);
    await commit(records, "this-boot", base, records.boot);
    const again = await reopen();
    assert.deepEqual(names(again), ["base", "this-boot"]);
    assert.equal(again.find("lost"), undefined);
    assert.ok(!await exists(again.folder(child)));
  });
});

Deno.test({ name: "records: folders are not used twice", ignore: !linux }, async () => {
  await withRecords(async (records, reopen) => {
    const used = new Set<string>();
    for (let i = 0; i < 40; i++) used.add(await commit(records, `s${i}`));
    assert.equal(used.size, 40);
    const again = await reopen();
    assert.ok(!used.has(again.reserve({ id: "next" }).record.dir));
  });
});

Deno.test({
  name: "records: a snapshot is whole while its tree and those below it are there",
  ignore: !linux,
}, async () => {
  await withRecords(async (records) => {
    const below = await commit(records, "below");
    await commit(records, "above", below);
    const whole = () => ["below", "above"].map((name) => records.isWhole(records.find(name)!));
    assert.deepEqual(whole(), [true, true]);
    await Deno.remove(records.folder(below), { recursive: true });
    assert.deepEqual(whole(), [false, false]);
    await records.drop(records.find("below")!);
    assert.equal(records.isWhole(records.find("above")!), false);
  });
});

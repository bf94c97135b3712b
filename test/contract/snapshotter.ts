/** What every Snapshotter must do; see lib/snapshot/snapshotter.ts. Layers are in snapshotter_layers.ts. */
import assert from "node:assert/strict";
import type { ArchivePart } from "../../lib/oci/tar_blocks.ts";
import type { ActiveSnapshot, Snapshotter } from "../../lib/snapshot/snapshotter.ts";
import { SvcError } from "../../lib/base/errors.ts";
import { mountsUnder } from "../../lib/sys/mountinfo.ts";
import { readTar } from "../../lib/oci/tar_read.ts";
import { readNames } from "../../lib/sys/directory.ts";
import { lstat, S_IFDIR, S_IFMT, setTimes } from "../../lib/sys/files.ts";
import { write } from "./snapshot_trees.ts";

/** The bytes of a layer's blocks. */
export function archiveOf(parts: AsyncIterable<ArchivePart>): ReadableStream<Uint8Array> {
  const bytes = async function* () {
    for await (const part of parts) if (part.kind === "block") yield part.bytes;
  };
  return ReadableStream.from(bytes());
}

export interface SnapshotterUnderTest {
  snapshotter: Snapshotter;
  /** An empty folder for mounts. */
  folder: string;
  /** A restart: opens the same data again. */
  reopen: () => Promise<Snapshotter>;
}

export type SnapshotterTest = (
  title: string,
  fn: (under: SnapshotterUnderTest) => Promise<void>,
) => void;

/** Asserts that `work` throws an SvcError of that code. */
export async function throwsCode(work: Promise<unknown>, code: string): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  });
}

/** Mounts, changes, unmounts. */
export async function edit(
  active: ActiveSnapshot,
  folder: string,
  change: (root: string) => void,
): Promise<void> {
  const target = `${folder}/edit`;
  await active.mount(target);
  try {
    change(target);
  } finally {
    await active.unmount(target);
  }
}

function dateOne(path: string, latest: number): void {
  const { mtime, mtimeNs } = lstat(path);
  if (mtime > latest || mtime === latest && mtimeNs > 0) setTimes(path, latest);
}

/** Sets times that are later than `latest` to it: else two of the same changes have not the same layer. */
export function date(root: string, latest: number): void {
  for (const name of readNames(root)) {
    const path = `${root}/${name}`;
    if ((lstat(path).mode & S_IFMT) === S_IFDIR) date(path, latest);
    else dateOne(path, latest);
  }
  dateOne(root, latest);
}

/** A committed snapshot with `change` made to `parent`; `latest`: no time in it is later. */
export async function make(
  { snapshotter, folder }: SnapshotterUnderTest,
  name: string,
  parent: string | undefined,
  change: (root: string) => void,
  latest?: number,
): Promise<void> {
  const active = await snapshotter.prepare(`make-${name}`, parent);
  await edit(active, folder, (root) => {
    change(root);
    if (latest !== undefined) date(root, latest);
  });
  await snapshotter.commit(active, name);
}

/** Calls `look` with a read-only view. */
export async function look<T>(
  { snapshotter, folder }: Pick<SnapshotterUnderTest, "snapshotter" | "folder">,
  name: string,
  look: (root: string) => T,
): Promise<T> {
  await using _view = await snapshotter.view(name, `${folder}/view`);
  return look(`${folder}/view`);
}

const names = (path: string) => [...Deno.readDirSync(path)].map((entry) => entry.name).sort();

export function snapshotterContract(test: SnapshotterTest): void {
  test("a child sees its parent's files and changes none of them", async (under) => {
    await make(under, "base", undefined, (root) => {
      write(`${root}/a`, "one");
      write(`${root}/b`, "two");
    });
    await make(under, "child", "base", (root) => {
      assert.equal(Deno.readTextFileSync(`${root}/a`), "one");
      write(`${root}/a`, "changed");
      Deno.removeSync(`${root}/b`);
      write(`${root}/c`, "three");
    });
    assert.deepEqual(await look(under, "base", names), ["a", "b"]);
    assert.deepEqual(await look(under, "child", names), ["a", "c"]);
    assert.equal(await look(under, "base", (r) => Deno.readTextFileSync(`${r}/a`)), "one");
    const info = await under.snapshotter.stat("child");
    assert.equal(info?.parent, "base");
    assert.equal(info?.kind, "committed");
    assert.ok(info!.size! > 0);
  });

  test("a view cannot be written", async (under) => {
    await make(under, "base", undefined, (root) => write(`${root}/a`, "one"));
    await make(under, "child", "base", (root) => write(`${root}/b`, "two"));
    for (const name of ["base", "child"]) {
      await look(under, name, (root) => {
        assert.throws(
          () => Deno.writeTextFileSync(`${root}/x`, ""),
          (e) => (e as { code?: string }).code === "EROFS",
        );
      });
    }
    assert.deepEqual(await mountsUnder(under.folder), []);
  });

  test("mounting twice at one place mounts once", async (under) => {
    await make(under, "base", undefined, (root) => write(`${root}/a`, ""));
    const active = await under.snapshotter.prepare("active", "base");
    await active.mount(`${under.folder}/m`);
    await active.mount(`${under.folder}/m`);
    assert.equal((await mountsUnder(under.folder)).length, 1);
    await throwsCode(under.snapshotter.commit(active, "early"), "conflict");
    await active.unmount(`${under.folder}/m`);
    await active.unmount(`${under.folder}/m`);
    assert.equal((await mountsUnder(under.folder)).length, 0);
    await under.snapshotter.remove("active");
  });

  test("the root folder keeps its owner and mode from parent to child", async (under) => {
    await make(under, "base", undefined, (root) => {
      Deno.chmodSync(root, 0o710);
      Deno.chownSync(root, 12, 34);
    });
    await make(under, "child", "base", (root) => write(`${root}/a`, ""));
    const { mode, uid, gid } = await look(under, "child", lstat);
    assert.deepEqual([mode & 0o7777, uid, gid], [0o710, 12, 34]);
  });

  test("names: taken, unknown, and removed only without children", async (under) => {
    const { snapshotter } = under;
    await make(under, "base", undefined, (root) => write(`${root}/a`, ""));
    await make(under, "child", "base", (root) => write(`${root}/b`, ""));
    await throwsCode(snapshotter.prepare("base"), "conflict");
    await throwsCode(snapshotter.prepare("x", "nothing"), "not_found");
    await throwsCode(snapshotter.view("nothing", under.folder), "not_found");
    await throwsCode(snapshotter.remove("base"), "conflict");
    const active = await snapshotter.prepare("active", "child");
    await throwsCode(snapshotter.prepare("other", "active"), "not_found");
    await throwsCode(snapshotter.remove("child"), "conflict");
    await snapshotter.remove("active");
    await throwsCode(snapshotter.commit(active, "late"), "not_found");
    await snapshotter.remove("child");
    await snapshotter.remove("base");
    await snapshotter.remove("base");
    assert.equal(await snapshotter.stat("base"), undefined);
    assert.deepEqual(await Array.fromAsync(snapshotter.list()), []);
  });

  test("what is viewed cannot be removed", async (under) => {
    await make(under, "base", undefined, (root) => write(`${root}/a`, ""));
    {
      await using _view = await under.snapshotter.view("base", `${under.folder}/v`);
      await throwsCode(under.snapshotter.remove("base"), "conflict");
    }
    await under.snapshotter.remove("base");
  });

  test("an alias is the same snapshot, and keeps it when the first name goes", async (under) => {
    const { snapshotter } = under;
    await make(under, "base", undefined, (root) => write(`${root}/a`, "one"));
    await snapshotter.alias("again", "base");
    await snapshotter.alias("again", "base");
    await throwsCode(snapshotter.alias("x", "nothing"), "not_found");
    await make(under, "child", "again", (root) => write(`${root}/b`, ""));
    await snapshotter.remove("base");
    assert.equal(await snapshotter.stat("base"), undefined);
    assert.equal((await snapshotter.stat("child"))?.parent, "again");
    const reopened = await under.reopen();
    assert.deepEqual(
      await look({ ...under, snapshotter: reopened }, "again", names),
      ["a"],
    );
    await throwsCode(reopened.remove("again"), "conflict");
  });

  test("committing under a name that exists keeps the one that is there", async (under) => {
    const { snapshotter } = under;
    await make(under, "same", undefined, (root) => write(`${root}/first`, ""));
    const racers = await Promise.all(
      [1, 2, 3].map((n) => snapshotter.prepare(`racer-${n}`, "same")),
    );
    await Promise.all(racers.map((active) => snapshotter.commit(active, "raced")));
    await make(under, "same", undefined, (root) => write(`${root}/second`, ""));
    assert.deepEqual(await look(under, "same", names), ["first"]);
    const found = (await Array.fromAsync(snapshotter.list())).map((info) => info.name);
    assert.deepEqual(found.sort(), ["raced", "same"]);
  });

  test("a restart finds committed and active snapshots", async (under) => {
    await make(under, "base", undefined, (root) => write(`${root}/a`, ""));
    const active = await under.snapshotter.prepare("active", "base");
    await edit(active, under.folder, (root) => write(`${root}/b`, "kept"));
    await under.snapshotter.prepare("unowned", undefined, { volatile: true });
    const again = await under.reopen();
    const infos = await Array.fromAsync(again.list());
    assert.deepEqual(
      infos.map((info) => [info.name, info.kind, info.parent]).sort(),
      [
        ["active", "active", "base"],
        ["base", "committed", undefined],
        ["unowned", "active", undefined],
      ],
    );
    assert.equal(await again.active("base"), undefined);
    assert.equal(await again.active("nothing"), undefined);
    const found = await again.active("active");
    assert.equal(found?.parent, "base");
    await edit(found!, under.folder, (root) => {
      assert.equal(Deno.readTextFileSync(`${root}/b`), "kept");
    });
    await again.commit(found!, "done");
    assert.deepEqual(await look({ ...under, snapshotter: again }, "done", names), ["a", "b"]);
    await again.remove("unowned");
    assert.equal(await again.stat("unowned"), undefined);
  });

  test("a volatile snapshot can be mounted again, and committed", async (under) => {
    await make(under, "base", undefined, (root) => write(`${root}/a`, ""));
    const active = await under.snapshotter.prepare("quick", "base", { volatile: true });
    await edit(active, under.folder, (root) => write(`${root}/b`, ""));
    await edit(active, under.folder, (root) => write(`${root}/c`, ""));
    await under.snapshotter.commit(active, "done", { lazy: true });
    await under.snapshotter.sync();
    assert.deepEqual(
      await look({ ...under, snapshotter: await under.reopen() }, "done", names),
      ["a", "b", "c"],
    );
  });

  test("a chain of 128 can be mounted", async (under) => {
    let parent: string | undefined;
    for (let i = 0; i < 128; i++) {
      const active = await under.snapshotter.prepare(`a${i}`, parent);
      if (i % 16 === 0) await edit(active, under.folder, (root) => write(`${root}/f${i}`, ""));
      parent = `layer-${i}`;
      await under.snapshotter.commit(active, parent, { lazy: true });
    }
    assert.equal((await look(under, parent!, names)).length, 8);
    await make(under, "top", parent, (root) => write(`${root}/top`, ""));
    assert.equal((await look(under, "top", names)).length, 9);
  });

  test("times are kept to the nanosecond; an epoch is the latest in a layer alone", async (under) => {
    const times: Record<string, [number, number]> = {
      late: [2_000_000_000, 7],
      later: [2_000_000_000, 8],
      early: [1_000_000_000, 5],
    };
    await make(under, "base", undefined, (root) => {
      for (const [name, [seconds, nanoseconds]] of Object.entries(times)) {
        write(`${root}/${name}`, name);
        setTimes(`${root}/${name}`, seconds, nanoseconds);
      }
    });
    await make(under, "child", "base", (root) => write(`${root}/new`, ""));
    const began = Date.now() / 1000 - 60;
    const layerTimes = async (name: string, epoch?: number) => {
      const found: Record<string, number> = {};
      for await (const { header } of readTar(archiveOf(under.snapshotter.diff(name, { epoch })))) {
        found[header.path] = header.mtime;
      }
      return found;
    };
    const epoch = 1_500_000_000;
    assert.deepEqual(await layerTimes("base", epoch), { late: epoch, later: epoch, early: 1e9 });
    assert.deepEqual(await layerTimes("base"), { late: 2e9, later: 2e9, early: 1e9 });
    assert.equal((await layerTimes("child", epoch)).new, epoch);
    assert.ok((await layerTimes("child")).new >= began);
    await look(under, "child", (root) => {
      for (const [name, time] of Object.entries(times)) {
        const { mtime, mtimeNs } = lstat(`${root}/${name}`);
        assert.deepEqual([mtime, mtimeNs], time);
      }
      assert.ok(lstat(`${root}/new`).mtime >= began);
    });
  });

  test("touch moves the time of last use, and a restart knows it", async (under) => {
    await make(under, "base", undefined, (root) => write(`${root}/a`, ""));
    const before = (await under.snapshotter.stat("base"))!.used.getTime();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await under.snapshotter.touch("base");
    const after = (await under.snapshotter.stat("base"))!.used.getTime();
    assert.ok(after > before);
    const again = await under.reopen();
    assert.ok(Math.abs((await again.stat("base"))!.used.getTime() - after) < 5);
    await throwsCode(again.touch("nothing"), "not_found");
  });

  test("pruning leaves what others are built on, what is viewed and what is in use", async (under) => {
    const { snapshotter, folder } = under;
    await make(under, "base", undefined, (root) => write(`${root}/a`, "one"));
    await make(under, "child", "base", (root) => write(`${root}/b`, "two"));
    await snapshotter.alias("second", "child");
    assert.equal(await snapshotter.prune("base"), false, "the child is built on it");
    {
      await using _view = await snapshotter.view("child", `${folder}/view`);
      assert.equal(await snapshotter.prune("child"), false, "it is viewed");
    }
    {
      using _use = snapshotter.use();
      assert.ok(await snapshotter.stat("second"));
      assert.equal(await snapshotter.prune("child"), false, "it was asked for");
      await make(under, "made", undefined, () => {});
      assert.equal(await snapshotter.prune("made"), false, "it was made meanwhile");
    }
    using _later = snapshotter.use();
    assert.equal(await snapshotter.prune("second"), true, "asked for before this use began");
    assert.equal(await snapshotter.stat("child"), undefined, "all its names are gone");
    assert.equal(await snapshotter.prune("base"), true);
    assert.equal(await snapshotter.prune("nothing"), false);
    const again = await under.reopen();
    assert.equal(await again.stat("child"), undefined);
    assert.ok(await again.stat("made"));
  });
}

/** Snapshots that amend another: its changes and theirs in one layer, on what it lies on. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readTar } from "../../lib/oci/tar_read.ts";
import { removeTreeSync } from "../../lib/sys/directory.ts";
import * as files from "../../lib/sys/files.ts";
import { change, describe, populate, setTreeTimes, write } from "./snapshot_trees.ts";
import {
  archiveOf,
  date,
  edit,
  look,
  make,
  type SnapshotterTest,
  type SnapshotterUnderTest,
  throwsCode,
} from "./snapshotter.ts";

const LATEST = 1_650_000_000;

/** Changes of each kind to what {@linkcode change} left. */
function changeAgain(root: string): void {
  const at = (name: string) => `${root}/${name}`;
  write(at("etc/deep/third"), "3");
  write(at("hidden/stays"), "after all");
  files.unlink(at("hidden/new"));
  files.unlink(at("etc/passwd"));
  removeTreeSync(at("brand"));
  files.mkdir(at("brand"));
  write(at("brand/newer"), "newer", 0o640, [7, 8]);
  removeTreeSync(at("etc/file-to-dir"));
  write(at("etc/file-to-dir"), "a file again");
  files.unlink(at("etc/dir-to-file"));
  files.mkdir(at("etc/dir-to-file"));
  write(at("etc/dir-to-file/z"), "z");
  files.mkdir(at("gone"));
  write(at("gone/back"), "back");
  files.chmod(at("dev"), 0o700);
}

/** On "base": "first" with {@linkcode change}, and `name`, which amends it. */
async function amended(under: SnapshotterUnderTest, name: string): Promise<void> {
  const { snapshotter, folder } = under;
  await make(under, "base", undefined, populate, LATEST);
  await make(under, "first", "base", change, LATEST);
  const active = await snapshotter.prepare("amending", "base", { amend: "first" });
  await edit(active, folder, (root) => {
    changeAgain(root);
    date(root, LATEST);
  });
  await snapshotter.commit(active, name);
}

/** Every entry of the layer, a line each with all that it says. */
async function layerOf({ snapshotter }: SnapshotterUnderTest, name: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const { header, body } of readTar(archiveOf(snapshotter.diff(name)))) {
    const digest = createHash("sha256");
    for await (const bytes of body) digest.update(bytes);
    lines.push(`${JSON.stringify(header, plain)} ${digest.digest("hex").slice(0, 12)}`);
  }
  return lines;
}

const plain = (_key: string, value: unknown) =>
  value instanceof Uint8Array ? value.toHex() : value instanceof Map ? [...value] : value;

export function amendContract(test: SnapshotterTest): void {
  test("amended: its tree and its layer are as if all was changed at once", async (under) => {
    await amended(under, "second");
    await make(under, "at-once", "base", (root) => {
      change(root);
      changeAgain(root);
    }, LATEST);
    assert.deepEqual(
      await look(under, "second", describe),
      await look(under, "at-once", describe),
    );
    const layer = await layerOf(under, "second");
    assert.ok(layer.length > 20);
    assert.deepEqual(layer, await layerOf(under, "at-once"));
    const { snapshotter } = under;
    assert.deepEqual(
      await Array.fromAsync(snapshotter.diff("second")),
      await Array.fromAsync(snapshotter.diff("at-once")),
    );
  });

  test("amended twice, and built upon", async (under) => {
    const { snapshotter, folder } = under;
    await amended(under, "second");
    const again = await snapshotter.prepare("again", "base", { amend: "second" });
    await edit(again, folder, (root) => {
      write(`${root}/etc/deep/config`, "4");
      date(root, LATEST);
    });
    await snapshotter.commit(again, "third");
    await make(under, "child", "third", (root) => {
      assert.equal(Deno.readTextFileSync(`${root}/etc/deep/third`), "3");
      assert.equal(Deno.readTextFileSync(`${root}/etc/deep/config`), "4");
      files.unlink(`${root}/etc/deep/third`);
    }, LATEST);
    await make(under, "at-once", "base", (root) => {
      change(root);
      changeAgain(root);
      write(`${root}/etc/deep/config`, "4");
    }, LATEST);
    assert.deepEqual(await layerOf(under, "third"), await layerOf(under, "at-once"));
    const child = (await layerOf(under, "child")).join("\n");
    assert.ok(child.includes("etc/deep/.wh.third"));
    assert.ok(!child.includes("etc/deep/config"), "what the parent has is in the child's layer");
  });

  test("amended: a restart and an alias change nothing", async (under) => {
    await amended(under, "second");
    const layer = await layerOf(under, "second");
    await under.snapshotter.alias("other", "second");
    const snapshotter = await under.reopen();
    assert.deepEqual(await layerOf({ ...under, snapshotter }, "other"), layer);
    assert.equal((await snapshotter.stat("other"))?.parent, "first");
  });

  test("amended: an epoch is the latest time in all of its layer", async (under) => {
    const { snapshotter, folder } = under;
    await make(under, "base", undefined, populate);
    await make(under, "first", "base", (root) => {
      files.mkdir(`${root}/made`);
      write(`${root}/made/file`, "1");
      setTreeTimes(`${root}/made`, LATEST + 5);
    });
    const active = await snapshotter.prepare("amending", "base", { amend: "first" });
    await edit(active, folder, (root) => write(`${root}/made/other`, "2"));
    await snapshotter.commit(active, "second");
    const times: Record<string, number> = {};
    for await (
      const { header } of readTar(archiveOf(snapshotter.diff("second", { epoch: LATEST })))
    ) {
      times[header.path] = header.mtime;
    }
    assert.deepEqual(times, { made: LATEST, "made/file": LATEST, "made/other": LATEST });
    const kept = await look(under, "second", (root) => files.lstat(`${root}/made/file`).mtime);
    assert.equal(kept, LATEST + 5);
  });

  test("amended: only what lies on the same parent; it stays while others lie on it", async (under) => {
    const { snapshotter } = under;
    await amended(under, "second");
    await make(under, "elsewhere", undefined, (root) => write(`${root}/a`, ""));
    const amend = (parent: string | undefined, name: string) =>
      snapshotter.prepare("x", parent, { amend: name });
    await throwsCode(amend("base", "elsewhere"), "conflict");
    await throwsCode(amend("elsewhere", "first"), "conflict");
    await throwsCode(amend(undefined, "first"), "conflict");
    await throwsCode(amend("base", "nothing"), "not_found");
    await throwsCode(snapshotter.remove("first"), "conflict");
    assert.equal(await snapshotter.prune("first"), false);
    assert.equal(await snapshotter.prune("second"), true);
    assert.equal(await snapshotter.prune("first"), true);
  });
}

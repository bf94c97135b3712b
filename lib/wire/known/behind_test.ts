/** What a mount with `,async` makes without waiting: how much it saves, and what comes of it where it cannot be made. */
import assert from "node:assert/strict";
import { bothEnds, type Ends } from "../blocks/testing.ts";
import { type FileNode, OPEN } from "../files/node.ts";
import { GIVEN, isGiven } from "../files/given.ts";
import { ERRNO, FileError } from "../files/stat.ts";
import { mountTest, run } from "../fuse/testing.ts";
import { AheadBlocks } from "../blocks/ahead_blocks.ts";
import type { NinepClient } from "../ninep/client.ts";
import { T, type Writer } from "../ninep/messages.ts";
import { RemoteNode } from "../ninep/remote_node.ts";

const text = (value: string) => new TextEncoder().encode(value);
/** For what waits for an answer that does not come. */
const PATIENCE_MS = 60_000;
const NEW = OPEN.RDWR | OPEN.EXCL;

/** A folder of the export in which something was made already. */
async function proven(ends: Ends): Promise<FileNode> {
  await (await ends.root.list()).close();
  const folder = await ends.root.writer!.mkdir("folder", 0o755);
  await (await folder.list()).close();
  await make(folder, "first", "first");
  return folder;
}

async function make(folder: FileNode, name: string, content: string): Promise<FileNode> {
  const { node, file } = await folder.writer!.create(name, NEW, 0o644);
  await file.write!(0, text(content));
  await file.flush!();
  await file.close();
  return node;
}

const test = (name: string, fn: (ends: Ends, folder: FileNode) => Promise<void>) =>
  Deno.test({
    name: `behind: ${name}`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      await using ends = await bothEnds();
      await fn(ends, await proven(ends));
    },
  });

test("a new file is answered at once, and is what it will be", async (ends, folder) => {
  const made = await folder.writer!.create("new", NEW, 0o640);
  assert.ok(isGiven(made.node.id), "it was waited for");
  assert.equal(made.node.takeStat!()!.mode & 0o777, 0o640);
  assert.equal((await folder.walk("new")).id, made.node.id);
  assert.equal(await made.file.write!(0, text("content")), 7);
  const into = new Uint8Array(10);
  assert.equal(await made.file.read(0, into), 7);
  await made.file.sync!(false);
  const path = `${ends.folder}/folder/new`;
  assert.equal(await Deno.readTextFile(path), "content");
  const stat = await made.node.stat();
  assert.equal(stat.guess, undefined);
  assert.equal(stat.mtime.s, Math.floor((await Deno.stat(path)).mtime!.getTime() / 1000));
  await made.file.close();
});

test("folders are made, and filled, at once", async (ends, folder) => {
  const sub = await folder.writer!.mkdir("sub", 0o755);
  const below = await sub.writer!.mkdir("below", 0o755);
  assert.ok(isGiven(below.id));
  const file = await make(below, "file", "deep");
  await file.writer!.change({ mode: 0o600, mtime: { s: 5, ns: 6 } });
  const stat = await file.stat();
  assert.deepEqual([stat.mode & 0o777, stat.mtime], [0o600, { s: 5, ns: 6 }]);
  assert.equal(await Deno.readTextFile(`${ends.folder}/folder/sub/below/file`), "deep");
});

test("a file that is waited for may have been there", async (ends, folder) => {
  const { node, file } = await folder.writer!.create("one", NEW, 0o644);
  assert.ok(isGiven(node.id));
  await file.write!(0, text("ours"));
  await file.flush!();
  await file.close();
  Deno.writeTextFileSync(`${ends.folder}/folder/one`, "the caller's");
  // By a folder that nothing is known of, as another program has it that has not heard of the file.
  const other = await ends.client.attach("", 0);
  const walk = ends.client.begin(other, ["folder"]);
  const plain = new RemoteNode(ends.client, walk.fid, (await walk.found)!, true, ends.ahead);
  const again = await plain.create("one", OPEN.RDWR, 0o644);
  assert.equal(again.node.id, node.id);
  const into = new Uint8Array(20);
  assert.equal(await again.file.read(0, into), 12, "it counted as empty");
  await again.file.write!(0, text("THE"));
  await again.file.sync!(false);
  await again.file.close();
  assert.equal(await Deno.readTextFile(`${ends.folder}/folder/one`), "THE caller's");
  again.node.close();
  plain.close();
});

test(
  "what the caller has made meanwhile stays, and whoever closes is told",
  async (ends, folder) => {
    // No news of it can have come: nothing is heard between these lines.
    Deno.writeTextFileSync(`${ends.folder}/folder/taken`, "the caller's");
    const { node, file } = await folder.writer!.create("taken", NEW, 0o644);
    await file.write!(0, text("the workload's"));
    await assert.rejects(async () => await file.flush!(), { errno: ERRNO.EEXIST });
    await assert.rejects(async () => await node.stat(), FileError);
    await file.close();
    assert.equal(await Deno.readTextFile(`${ends.folder}/folder/taken`), "the caller's");
    const now = await (await folder.walk("taken")).open(OPEN.RDWR);
    const into = new Uint8Array(20);
    assert.equal(await now.read(0, into), 12);
    await now.close();
  },
);

test("a folder of the caller's by the same name gets nothing", async (ends, folder) => {
  Deno.mkdirSync(`${ends.folder}/folder/taken`, { mode: 0o755 });
  const sub = await folder.writer!.mkdir("taken", 0o700);
  const { node, file } = await sub.writer!.create("file", NEW, 0o644);
  await file.write!(0, text("lost?"));
  await assert.rejects(async () => await file.sync!(false), FileError);
  await assert.rejects(async () => await node.writer!.change({ mode: 0o777 }), FileError);
  await file.close();
  assert.deepEqual([...Deno.readDirSync(`${ends.folder}/folder/taken`)], []);
  assert.equal(Deno.statSync(`${ends.folder}/folder/taken`).mode! & 0o777, 0o755);
  // Whoever syncs the folder above is told, once.
  const listed = await folder.list();
  await assert.rejects(async () => await listed.sync!(), { errno: ERRNO.EEXIST });
  await listed.sync!();
});

test(
  "nothing that was meant for a file that is not there changes its folder",
  async (ends, folder) => {
    Deno.writeTextFileSync(`${ends.folder}/folder/taken`, "");
    const before = Deno.statSync(`${ends.folder}/folder`).mode;
    const { node, file } = await folder.writer!.create("taken", NEW, 0o644);
    await Promise.resolve(node.writer!.change({ mode: 0o700 })).catch(
      () => {/* it is not there */},
    );
    await assert.rejects(async () => await file.flush!(), { errno: ERRNO.EEXIST });
    await file.close();
    assert.equal(Deno.statSync(`${ends.folder}/folder`).mode, before);
  },
);

test("the first entry of a folder waits: its errors are its own", async (ends) => {
  await Deno.mkdir(`${ends.folder}/other`);
  await Deno.writeTextFile(`${ends.folder}/other/taken`, "");
  let other: FileNode | undefined;
  while (!other) {
    await new Promise((resolve) => setImmediate(resolve));
    other = await Promise.resolve(ends.root.walk("other")).catch(() => undefined);
  }
  await (await other.list()).close();
  const making = async () => await other.writer!.create("taken", NEW, 0o644);
  await assert.rejects(making, { errno: ERRNO.EEXIST });
  assert.ok(!isGiven((await make(other, "new", "")).id));
  assert.ok(isGiven((await make(other, "another", "")).id));
});

test(
  "wherever the connection ends, the caller has the first calls and none of the others",
  async (ends, folder) => {
    const path = `${ends.folder}/folder`;
    for (let n = 0; n < 20; n++) {
      const sub = await folder.writer!.mkdir(`${n}`, 0o755);
      const { file } = await sub.writer!.create("file", NEW, 0o644);
      await file.write!(0, text(`${n}`));
    }
    // Any number of steps of what is under way.
    for (let steps = Math.random() * 40; steps > 0; steps--) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    ends.cut();
    await ends.client.closed;
    await ends.served;
    const has = (name: string) => {
      try {
        return Deno.statSync(`${path}/${name}`).isFile
          ? Deno.readTextFileSync(`${path}/${name}`)
          : "";
      } catch {
        return undefined;
      }
    };
    const all = Array.from({ length: 20 }, (_, n) => [has(`${n}`), has(`${n}/file`), `${n}`]);
    let ended = false;
    for (const [sub, file, content] of all) {
      if (ended) {
        assert.deepEqual(
          [sub, file],
          [undefined, undefined],
          "a later one without an earlier",
        );
      }
      ended ||= sub === undefined || file !== content;
    }
  },
);

async function refused(client: NinepClient, type: number, fill: (request: Writer) => Writer) {
  await assert.rejects(client.ask(type, fill, () => {}), { errno: ERRNO.EINVAL });
}

test("a number that another file may have is given to none", async ({ client, folder: at }) => {
  const root = await client.attach("");
  const folder = await client.walk(root, ["folder"]);
  const mkdir = (name: string, number: bigint, fid: number) => (request: Writer) =>
    request.u32(folder).text(name).u32(0o755).u32(0).u64(number).u32(fid);
  await refused(client, T.MKDIR, mkdir("a", 5n, client.takeFid()));
  await refused(client, T.MKDIR, mkdir("a", GIVEN - 1n, client.takeFid()));
  await client.ask(T.MKDIR, mkdir("b", GIVEN + 5n, client.takeFid()), () => {});
  await refused(client, T.MKDIR, mkdir("c", GIVEN + 5n, client.takeFid()));
  const create = (number: bigint) => (request: Writer) =>
    request.u32(folder).text("d").u32(OPEN.RDWR | OPEN.EXCL).u32(0o644).u32(0).u64(number);
  await refused(client, T.LCREATE, create(GIVEN + 5n));
  assert.deepEqual(Array.from(Deno.readDirSync(`${at}/folder`), ({ name }) => name).sort(), [
    "b",
    "first",
  ]);
});

Deno.test({
  name: "behind: a checkout and a save wait for nothing but closing, syncing and renaming",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    let gate = Promise.resolve();
    await using ends = await bothEnds({}, { delay: () => gate });
    const folder = await proven(ends);
    const held = Promise.withResolvers<void>();
    gate = held.promise;
    // No answer comes meanwhile: what waits for one is late, and not done when the first file is synced.
    const late = setTimeout(
      () => held.reject(new FileError(ERRNO.EIO, "something waits")),
      PATIENCE_MS,
    );
    const files = [];
    for (let n = 0; n < 20; n++) {
      const sub = await folder.writer!.mkdir(`${n}`, 0o755);
      const { node, file } = await sub.writer!.create("file", NEW, 0o644);
      await file.write!(0, text(`${n}`));
      await node.writer!.change({ mode: 0o600, mtime: { s: n, ns: 0 } });
      assert.equal(node.takeStat!()!.size, `${n}`.length);
      files.push(file);
    }
    const saved = await folder.writer!.create("new", NEW, 0o644);
    await saved.file.write!(0, text("saved"));
    const synced = saved.file.sync!(false);
    clearTimeout(late);
    held.resolve();
    await synced;
    await folder.writer!.rename("new", folder, "first");
    for (const file of files) await file.flush!();
    const at = `${ends.folder}/folder`;
    assert.equal(await Deno.readTextFile(`${at}/first`), "saved");
    assert.equal(await Deno.readTextFile(`${at}/19/file`), "19");
    assert.equal((await Deno.stat(`${at}/19/file`)).mtime!.getTime(), 19_000);
  },
});

/** Calls of git that wait, at most, with some for other work on the machine. */
const MOST = { plain: 600, async: 400 };

for (const kind of ["plain", "async"] as const) {
  mountTest(`how often a clone of 60 files waits, ${kind}`, ["git"], async (mounted) => {
    await run(
      mounted,
      `git init -q $B/from; cd $B/from; for n in $(seq 60); do mkdir -p d$((n / 20)); echo $n > d$((n / 20))/f$n; done
      git add -A; git -c user.name=a -c user.email=a@example.org commit -q -m files; ls $M`,
    );
    const before = mounted.waits();
    await run(mounted, "git clone -q file://$B/from $M/clone");
    const waits = mounted.waits() - before;
    assert.equal(
      await run(mounted, "git -C $F/clone -c safe.directory='*' status --porcelain"),
      "",
    );
    assert.ok(waits <= MOST[kind], `${waits} waits`);
  }, { delayMs: 20, ahead: kind === "async" ? () => new AheadBlocks({}) : undefined });
}

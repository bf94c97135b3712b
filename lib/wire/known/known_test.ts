/** What is known of a caller's folders without asking: how much it saves, and that it is true. */
import assert from "node:assert/strict";
import { hostFolder } from "../files/host_node.ts";
import { type FileNode, OPEN, type WatchedFolder } from "../files/node.ts";
import { AheadBlocks } from "../blocks/ahead_blocks.ts";
import { ERRNO } from "../files/stat.ts";
import { mountTest as fuseTest, run } from "../fuse/testing.ts";
import { served } from "../ninep/testing.ts";
import { KnownExports } from "./export.ts";
import type { Change } from "./tree.ts";

const PATIENCE_MS = 120_000;

interface Scene {
  folder: string;
  root: FileNode;
  heard: Change[];
  trips(): number;
  /** Waits until the entry of the root is there, or is not. */
  seen(name: string, there?: boolean): Promise<void>;
}

async function eventually(what: string, probe: () => boolean | Promise<boolean>): Promise<void> {
  for (const until = Date.now() + PATIENCE_MS; !await probe();) {
    if (Date.now() > until) assert.fail(`did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

function test(
  name: string,
  fn: (scene: Scene) => Promise<void>,
  { own = true, shown = (node: FileNode): FileNode => node } = {},
): void {
  Deno.test({
    name: `known: ${name}`,
    ignore: Deno.build.os !== "linux",
    fn: async () => {
      const folder = await Deno.makeTempDir({ prefix: "svc-known-" });
      const exported = shown(hostFolder(folder, { writable: true }));
      const heard: Change[] = [];
      try {
        await using ends = await served(exported, { own });
        const { root, tree } = await new KnownExports(ends.client).root("", { writable: true });
        tree.heard = {
          changed: (change) => Promise.resolve(void heard.push(change)),
          file: () => Promise.resolve(),
        };
        const there = async (name: string) => {
          try {
            (await root.walk(name)).close();
            return true;
          } catch {
            return false;
          }
        };
        const seen = (name: string, want = true) =>
          eventually(`${name}: ${want}`, async () => await there(name) === want);
        await fn({ folder, root, heard, seen, trips: ends.trips });
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

async function names(node: FileNode): Promise<string[]> {
  const folder = await node.list();
  const all: string[] = [];
  for (let at = 0n;;) {
    const entries = await folder.read(at);
    if (entries.length === 0) break;
    for (const { name, next } of entries) {
      all.push(name);
      at = next;
    }
  }
  await folder.close();
  return all.sort();
}

test("a listing brings attributes, what is missing, and folders below it", async (scene) => {
  const { folder, root, trips } = scene;
  await Deno.mkdir(`${folder}/a/b`, { recursive: true });
  for (let n = 0; n < 300; n++) await Deno.writeTextFile(`${folder}/a/b/${n}`, `${n}`);
  assert.deepEqual(await names(root), ["a"]);
  const before = trips();
  const b = await (await root.walk("a")).walk("b");
  assert.equal((await names(b)).length, 300);
  for (let n = 0; n < 300; n++) {
    const file = await b.walk(`${n}`);
    assert.equal((await file.stat()).size, `${n}`.length);
    file.close();
    await assert.rejects(async () => await b.walk(`none-${n}`), { errno: ERRNO.ENOENT });
  }
  assert.equal(trips(), before);
  await (await b.walk("7")).open(OPEN.RDWR);
  assert.ok(trips() - before <= 2, `${trips() - before} round trips to open a file`);
});

test("changes of the caller are seen, and heard as what they are", async (scene) => {
  const { folder, root, heard, seen } = scene;
  await Deno.writeTextFile(`${folder}/file`, "one");
  await names(root);
  await Deno.writeTextFile(`${folder}/new`, "");
  await seen("new");
  await Deno.remove(`${folder}/new`);
  await seen("new", false);
  const file = await root.walk("file");
  await Deno.writeTextFile(`${folder}/file`, "longer");
  await eventually("the new size", async () => (await file.stat()).size === 6);
  await Deno.chmod(`${folder}/file`, 0o600);
  await eventually("the new mode", async () => ((await file.stat()).mode & 0o777) === 0o600);
  await Deno.rename(`${folder}/file`, `${folder}/renamed`);
  await seen("renamed");
  await seen("file", false);
  const said = heard.map(({ name, what, before, after }) =>
    `${name} ${what === "entry" ? after ? before ? "replaced" : "made" : "gone" : what}`
  );
  const distinct = said.filter((one, at) => said.indexOf(one) === at);
  assert.deepEqual(
    distinct.filter((one) => !/content/.test(one)),
    [
      ...["new made", "new gone", "file attributes", "file gone", "renamed made"],
    ].filter((one) => distinct.includes(one)),
  );
  for (const one of ["new made", "new gone", "file content", "file gone", "renamed made"]) {
    assert.ok(said.includes(one), `${one} in ${said}`);
  }
});

test("what the mount changes itself is known at once, and not heard", async (scene) => {
  const { folder, root, heard } = scene;
  await names(root);
  const { node, file } = await root.writer!.create("file", OPEN.RDWR, 0o644);
  const sub = await root.writer!.mkdir("sub", 0o755);
  for (let n = 0; n < 50; n++) {
    await file.write!(n * 10, new Uint8Array(10));
    assert.equal((await node.stat()).size, n * 10 + 10);
  }
  await root.writer!.rename("file", sub, "moved");
  await assert.rejects(async () => await root.walk("file"), { errno: ERRNO.ENOENT });
  const moved = await sub.walk("moved");
  assert.equal((await moved.stat()).size, 500);
  for (let n = 0; n < 20; n++) {
    await moved.writer!.change({ mode: 0o600 + n % 2 });
    assert.equal((await moved.stat()).mode & 0o777, 0o600 + n % 2);
    await moved.writer!.setXattr("user.n", new Uint8Array(n + 1), 0);
    await moved.stat();
    await file.truncate!(100 - n);
    assert.equal((await moved.stat()).size, 100 - n);
  }
  await eventually("a folder that was just made is known", () => sub.knows!("another", undefined));
  await sub.writer!.remove("moved", "other");
  assert.deepEqual(await names(sub), []);
  await file.close();
  // A change of the caller's comes after all that the kernel told of the mount's own.
  await Deno.writeTextFile(`${folder}/last`, "");
  await scene.seen("last");
  assert.deepEqual(heard.map(({ name }) => name), ["last"]);
});

test("a round trip makes a folder or a file, one writes and closes it, one changes it", async (scene) => {
  const { root, trips } = scene;
  // The fewest: what is told just before an answer, and not with it, is asked for once more.
  const fewest: Record<string, number> = {};
  const counted = async <R>(what: string, work: () => R | Promise<R>): Promise<R> => {
    const before = trips();
    const result = await work();
    fewest[what] = Math.min(fewest[what] ?? Infinity, trips() - before);
    return result;
  };
  await names(root);
  for (let n = 0; n < 20; n++) {
    const sub = await counted("a folder", () => root.writer!.mkdir(`${n}`, 0o755));
    await counted("attributes of the one above it", () => root.stat());
    await eventually("the new folder is known", () => sub.knows!("file", undefined));
    const { node, file } = await counted(
      "a file",
      () => sub.writer!.create("file", OPEN.RDWR | OPEN.EXCL, 0o644),
    );
    await counted("attributes of its folder", () => sub.stat());
    await counted("writing, attributes, closing", async () => {
      await file.write!(0, new Uint8Array(10));
      assert.equal((await node.stat()).size, 10);
      await file.flush!();
    });
    await counted("a change", () => node.writer!.change({ mode: 0o600 }));
    await counted("all attributes", async () => {
      assert.equal((await node.stat()).mode & 0o777, 0o600);
      await sub.stat();
    });
    await file.close();
  }
  assert.deepEqual(fewest, {
    "a folder": 1,
    "attributes of the one above it": 0,
    "a file": 1,
    "attributes of its folder": 0,
    "writing, attributes, closing": 1,
    "a change": 1,
    "all attributes": 0,
  });
});

test("a file that gets a second name at the caller is asked for from then on", async (scene) => {
  const { folder, root, seen } = scene;
  await Deno.writeTextFile(`${folder}/a`, "one");
  await names(root);
  const a = await root.walk("a");
  assert.equal((await a.stat()).size, 3);
  await Deno.link(`${folder}/a`, `${folder}/b`);
  await seen("b");
  await Deno.writeTextFile(`${folder}/b`, "longer");
  await eventually("the new size", async () => (await a.stat()).size === 6);
});

test("a name that leads to another file by now opens that one, not the old", async (scene) => {
  const { folder, root } = scene;
  await Deno.writeTextFile(`${folder}/file`, "old");
  await names(root);
  for (let n = 0; n < 20; n++) {
    const file = await root.walk("file");
    await Deno.writeTextFile(`${folder}/other`, `new ${n}`);
    await Deno.rename(`${folder}/other`, `${folder}/file`);
    // As the kernel does: it looks the name up again where the file is stale.
    const again = async () => await (await root.walk("file")).open(0);
    const open = await (async () => await file.open(0))().catch(again);
    const bytes = new Uint8Array(20);
    const size = await open.read(0, bytes);
    assert.equal(new TextDecoder().decode(bytes.subarray(0, size)), `new ${n}`);
    await open.close();
  }
});

test("files with two names are asked for each time", async ({ folder, root }) => {
  await Deno.writeTextFile(`${folder}/a`, "one");
  await Deno.link(`${folder}/a`, `${folder}/b`);
  await names(root);
  const a = await root.walk("a");
  await Deno.writeTextFile(`${folder}/b`, "longer");
  assert.equal((await a.stat()).size, 6);
  assert.equal((await a.stat()).nlink, 2);
  await root.writer!.remove("b", "other");
  assert.equal((await a.stat()).nlink, 1);
});

const refusing = (what: number, node: FileNode): FileNode =>
  new Proxy(node, {
    get: (at, key) => {
      if (key === "watch") {
        return (): WatchedFolder => {
          throw Object.assign(new Error("no"), { errno: what });
        };
      }
      const value = Reflect.get(at, key, at);
      return typeof value === "function" ? value.bind(at) : value;
    },
  });

for (
  const [why, options] of Object.entries({
    "by an older version": { own: false },
    "where the system watches no more folders": {
      shown: (node: FileNode) => refusing(ERRNO.ENOSPC, node),
    },
  })
) {
  test(`what cannot be watched is asked for: ${why}`, async ({ folder, root, heard }) => {
    for (const name of ["a", "b"]) await Deno.writeTextFile(`${folder}/${name}`, name);
    assert.deepEqual(await names(root), ["a", "b"]);
    const a = await root.walk("a");
    await Deno.writeTextFile(`${folder}/a`, "longer");
    assert.equal((await a.stat()).size, 6);
    await Deno.remove(`${folder}/b`);
    await assert.rejects(async () => await root.walk("b"), { errno: ERRNO.ENOENT });
    assert.deepEqual(heard, []);
  }, options);
}

test("more changes than can be told are forgotten, not missed", async ({ folder, root, seen }) => {
  await Deno.writeTextFile(`${folder}/here`, "");
  await names(root);
  for (let n = 0; n < 10_500; n++) {
    Deno.openSync(`${folder}/${n}`, { create: true, write: true }).close();
  }
  await Deno.remove(`${folder}/here`);
  await seen("here", false);
  await seen("10499");
});

for (const [kind, ahead] of [["", undefined], [", async", () => new AheadBlocks({})]] as const) {
  fuseTest(
    `git status costs no round trip a file, the second time${kind}`,
    ["git"],
    async (mounted) => {
      await run(
        mounted,
        `cd $F; git init -q; for d in $(seq 20); do mkdir d$d; for n in $(seq 20); do echo $n > d$d/$n; done; done
    find . -name .git -prune -o -type f -exec touch -d '1 hour ago' {} +
    git add -A; git -c user.name=a -c user.email=a@b commit -q -m x; sleep 0.1`,
      );
      const status = "cd $M; git -c safe.directory='*' status --porcelain";
      const first = mounted.trips();
      await run(mounted, status);
      const second = mounted.trips();
      assert.equal(await run(mounted, status), "");
      const [cold, warm] = [second - first, mounted.trips() - second];
      assert.ok(warm < 60, `${warm} round trips for 400 files, after ${cold}`);
      await run(mounted, "echo more > $F/d3/4");
      await eventually("the change", async () => await run(mounted, status) === "M d3/4");
    },
    { ahead },
  );

  fuseTest(`whoever opens a file sees what was written before${kind}`, [], async (mounted) => {
    await run(
      mounted,
      `cd $M; is() { got=$(cat f); test "$got" = "$1" || { echo "$got, not $1" >&2; exit 1; }; }
    for n in $(seq 100); do echo $n and more > $F/f; is "$n and more"
    echo $n > $F/f.new; mv $F/f.new $F/f; is $n; done`,
    );
  }, { ahead });
}

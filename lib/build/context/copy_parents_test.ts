/** `COPY --parents`: which folders are kept, and as what. */
import assert from "node:assert/strict";
import { chmod, lchown, lstat } from "../../sys/files.ts";
import { copySelections } from "./copy.ts";
import { select, type Tree } from "./tree.ts";
import { contentKey } from "./tree_keys.ts";

const asRoot = Deno.uid() === 0;

async function withTree(
  work: (tree: Tree, made: (source: string) => Promise<string>) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-parents-" });
  try {
    const root = `${folder}/from`;
    await Deno.mkdir(`${root}/x/y/z`, { recursive: true });
    await Deno.mkdir(`${root}/x/y2`);
    for (const path of ["x/y/a.txt", "x/y/b.txt", "x/y/z/c.txt", "x/y2/d.txt"]) {
      await Deno.writeTextFile(`${root}/${path}`, path);
    }
    const tree: Tree = { root, ownersKept: true };
    let made = 0;
    await work(tree, async (source) => {
      const target = `${folder}/to${made++}`;
      await Deno.mkdir(target);
      await copySelections(tree, select(tree, source, true), {
        root: target,
        destination: "/p/",
        parents: true,
      });
      return target;
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("--parents: the first /./ divides what is left out from what is kept", () =>
  withTree((tree) => {
    const names = (source: string) => select(tree, source, true).map(({ name }) => name).sort();
    assert.deepEqual(names("./x/./y/*.txt"), ["y/a.txt", "y/b.txt"]);
    assert.deepEqual(names("./x/y/*.txt"), ["x/y/a.txt", "x/y/b.txt"], "./ divides nothing");
    assert.deepEqual(names("x/./y/./a.txt"), ["y/a.txt"], "the first one counts");
    assert.deepEqual(names("/x/./y/a.txt"), ["y/a.txt"]);
    assert.deepEqual(names("././x/y/a.txt"), ["x/y/a.txt"]);
    assert.deepEqual(names("x/y/z/."), ["x/y/z"]);
    assert.deepEqual(names("x/y*/./*.txt"), ["a.txt", "b.txt", "d.txt"]);
    assert.deepEqual(names("x/./**/c.txt"), ["y/z/c.txt"]);
    assert.deepEqual(names("x/./nope"), []);
    return Promise.resolve();
  }));

Deno.test({
  name: "--parents: folders keep owner and mode, and these are content",
  ignore: !asRoot,
  fn: () =>
    withTree(async (tree, made) => {
      chmod(`${tree.root}/x`, 0o711);
      chmod(`${tree.root}/x/y`, 0o2750);
      lchown(`${tree.root}/x/y`, 5, 6);
      chmod(`${tree.root}/x/y`, 0o2750);
      const of = (host: string) => {
        const { mode, uid, gid } = lstat(host);
        return [mode & 0o7777, uid, gid];
      };
      const target = await made("./x/./y/a.txt");
      assert.deepEqual(of(`${target}/p`), [0o755, 0, 0], "the destination is COPY's own");
      assert.deepEqual(of(`${target}/p/y`), [0o2750, 5, 6]);
      const all = await made("x/y/z/c.txt");
      assert.deepEqual(of(`${all}/p/x`), [0o711, 0, 0]);
      assert.deepEqual(of(`${all}/p/x/y`), [0o2750, 5, 6]);
      assert.deepEqual(of(`${all}/p/x/y/z`), [0o755, 0, 0]);
      const key = () => contentKey(tree, select(tree, "x/y/a.txt", true));
      const before = await key();
      lchown(`${tree.root}/x`, 7, 7);
      assert.notEqual(await key(), before);
    }),
});

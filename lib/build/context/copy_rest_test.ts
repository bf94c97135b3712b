/** Files that a COPY leaves for when its root is not mounted: the same result as without. */
import assert from "node:assert/strict";
import { closeIdleWorkers } from "../../base/worker_pool.ts";
import { lstat, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG } from "../../sys/files.ts";
import { readXattrs, setXattr } from "../../sys/xattr.ts";
import { type CopyOptions, copySelections, type RestOfFolder } from "./copy.ts";
import { select, type Tree } from "./tree.ts";
import { copyOffLoop, copyRest } from "./worker_client.ts";

const LINUX = Deno.build.os === "linux";
const ROOT = Deno.uid() === 0;

async function withTree(work: (directory: string, tree: Tree) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir({ prefix: "svc-rest-" });
  const root = `${directory}/tree`;
  try {
    for (let n = 0; n < 1100; n++) {
      const folder = `${root}/src/${n % 3 === 0 ? "flat" : `d${n % 40}/deep`}`;
      await Deno.mkdir(folder, { recursive: true });
      await Deno.writeTextFile(`${folder}/f${n}`, `${n} `.repeat(n % 7));
      await Deno.utime(`${folder}/f${n}`, 1000 + n, 1000 + n);
    }
    await Deno.writeTextFile(`${root}/src/top`, "top");
    await Deno.mkdir(`${root}/src/empty`);
    await Deno.link(`${root}/src/flat/f0`, `${root}/src/d1/hard`);
    await Deno.symlink("../flat/f3", `${root}/src/d1/soft`);
    await Deno.chmod(`${root}/src/flat/f9`, 0o4711);
    await Deno.chmod(`${root}/src/flat/f12`, 0o444);
    await Deno.chmod(`${root}/src/d2`, 0o2750);
    setXattr(`${root}/src/flat/f15`, "user.kept", new Uint8Array([1, 2]));
    for (const folder of ["src/d1/deep", "src/d1", "src/flat", "src"]) {
      await Deno.utime(`${root}/${folder}`, 500, 500);
    }
    await work(directory, { root, ownersKept: false });
  } finally {
    await Deno.remove(directory, { recursive: true });
    closeIdleWorkers();
  }
}

/** All that a layer would say of what is below. */
function look(root: string, path = ""): unknown[] {
  const host = `${root}${path}`;
  const { mode, uid, gid, size, nlink, mtime } = lstat(host);
  const kind = mode & S_IFMT;
  const attributes = [...readXattrs(host)].filter(([name]) => name.startsWith("user."));
  const common = [path, mode, uid, gid, attributes];
  if (kind === S_IFLNK) return [[...common, mtime, Deno.readLinkSync(host)]];
  if (kind === S_IFREG) return [[...common, mtime, nlink, size, Deno.readTextFileSync(host)]];
  assert.equal(kind, S_IFDIR);
  const names = [...Deno.readDirSync(host)].map(({ name }) => name).sort();
  // What the copy did not make has the time of the moment.
  const time = path === "" ? 0 : mtime;
  return [[...common, time], ...names.flatMap((name) => look(root, `${path}/${name}`))];
}

const CASES: Record<string, Partial<CopyOptions> & { into?: boolean; needsRoot?: boolean }> = {
  "a new folder": {},
  "a folder that is there": { into: true },
  "--chmod": { chmod: "u=rwX,go=r" },
  "--chown": { owner: { uid: 12, gid: 34 }, needsRoot: true },
  "--link": { link: true },
  "--exclude": { exclude: ["flat/f1*"] },
};

const test = (name: string, fn: (t: Deno.TestContext) => Promise<void>) =>
  Deno.test({ name: `files that are left for later: ${name}`, ignore: !LINUX, fn });

test("as if they were copied at once", (t) =>
  withTree(async (directory, tree) => {
    const selections = select(tree, "src", false);
    for (const [name, { into, needsRoot, ...given }] of Object.entries(CASES)) {
      const copy = async (
        root: string,
        work: (options: CopyOptions) => Promise<RestOfFolder[]>,
      ) => {
        await Deno.mkdir(into ? `${root}/to/flat` : root, { recursive: true });
        if (into) await Deno.writeTextFile(`${root}/to/flat/f0`, "was here");
        return await work({ ...given, root, destination: "/to" });
      };
      const fn = async () => {
        const [plain, later] = [`${directory}/plain ${name}`, `${directory}/later ${name}`];
        await copy(plain, (options) => copySelections(tree, selections, options));
        const rest = await copy(
          later,
          (options) => copyOffLoop(tree, selections, { ...options, upper: later }),
        );
        const files = rest.flatMap(({ names }) => names).length;
        assert.ok(files > 500, `${files} files are left`);
        await copyRest(rest, given);
        assert.deepEqual(look(`${later}/to`), look(`${plain}/to`));
      };
      await t.step({ name, ignore: needsRoot === true && !ROOT, fn });
    }
  }));

test("only of the last source", () =>
  withTree(async (directory, tree) => {
    const root = `${directory}/root`;
    await Deno.mkdir(root);
    const selections = ["src/d1", "src/flat"].flatMap((source) => select(tree, source, false));
    const rest = await copyOffLoop(tree, selections, { root, destination: "/to/", upper: root });
    assert.equal(Deno.readTextFileSync(`${root}/to/deep/f1`), "1 ");
    await copyRest(rest, {});
    assert.equal(Deno.readTextFileSync(`${root}/to/f3`), "3 3 3 ");
  }));

test("one that is gone, and a build that has ended", () =>
  withTree(async (directory, tree) => {
    const root = `${directory}/root`;
    await Deno.mkdir(root);
    const selections = select(tree, "src", false);
    const options = { root, destination: "/to", upper: root };
    const rest = await copyOffLoop(tree, selections, options);
    const signal = AbortSignal.abort();
    await assert.rejects(copyRest(rest, { signal }), { name: "AbortError" });
    await Deno.remove(`${tree.root}/src/flat/f3`);
    await assert.rejects(copyRest(rest, {}), /src\/flat.*f3/);
  }));

/** The same random file operations on a mount over 9P, and on a folder of this machine. */
import assert from "node:assert/strict";
import { hasFuse } from "../../sys/fuse.ts";
import { canMount } from "../../sys/mount.ts";
import { hostFolder } from "../files/host_node.ts";
import { KnownExports } from "../known/export.ts";
import { Waking } from "../known/waking.ts";
import { served } from "../ninep/testing.ts";
import { SEED } from "../testing.ts";
import { mountFuse } from "./mount.ts";

const PROGRAM = new URL("../../../test/fixtures/random_file_calls.ts", import.meta.url).pathname;
const COUNT = 2500;
const SEEDS = [SEED, SEED + 1, SEED + 2];

async function lines(folder: string, seed: number): Promise<string[]> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-lock", "--no-config", PROGRAM, folder, `${seed}`, `${COUNT}`],
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).split("\n");
}

for (const seed of SEEDS) {
  Deno.test({
    name: `fuse over 9P: ${COUNT} random operations as on a local folder, seed ${seed}`,
    ignore: !hasFuse() || !canMount(),
    fn: async () => {
      const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-random-" }));
      // Each in a folder of its own, since links lead out of them.
      const [at, folder, local] = [`${base}/1/mount`, `${base}/2/folder`, `${base}/3/local`];
      for (const path of [at, folder, local]) await Deno.mkdir(path, { recursive: true });
      const exported = hostFolder(folder, { writable: true });
      try {
        await using ends = await served(exported, { maxMessage: 1 << 20, own: true });
        const { root, tree } = await new KnownExports(ends.client).root("", { writable: true });
        await using mount = mountFuse(at, root, { writable: true, keepMs: 50 });
        tree.heard = new Waking(tree, mount, at);
        const [mounted, want] = await Promise.all([lines(at, seed), lines(local, seed)]);
        const differing = want.findIndex((line, index) => line !== mounted[index]);
        const from = Math.max(0, differing - 2);
        assert.deepEqual(mounted.slice(from, from + 8), want.slice(from, from + 8));
        assert.equal(mounted.length, want.length);
        assert.ok(want.filter((line) => !/ E[A-Z]+$/.test(line)).length > COUNT / 10, "most fail");
      } finally {
        await Deno.remove(base, { recursive: true });
      }
    },
  });
}

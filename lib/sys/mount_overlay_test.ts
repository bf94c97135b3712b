import assert from "node:assert/strict";
import { requireTools } from "../../test/e2e/harness.ts";
import { MAX_LOWER, mountOverlay, unmount } from "./mount.ts";

const { ignore } = requireTools({ root: true });

Deno.test({
  name: "overlay: as many layers as the kernel takes are mounted, one more is refused by name",
  ignore,
  fn: async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-overlay-" });
    try {
      const lower: string[] = [];
      for (let i = 0; i <= MAX_LOWER; i++) {
        lower.push(`${folder}/layer-with-a-name-as-long-as-others-${i}`);
        await Deno.mkdir(lower[i]);
        await Deno.writeTextFile(`${lower[i]}/${i}`, "");
      }
      const target = `${folder}/merged`;
      await Deno.mkdir(target);
      mountOverlay(target, { lower: lower.slice(1) });
      try {
        assert.equal([...Deno.readDirSync(target)].length, MAX_LOWER);
      } finally {
        unmount(target);
      }
      assert.throws(() => mountOverlay(target, { lower }), {
        code: "unsupported",
        message: /of 501 layers: overlayfs takes at most 500/,
      });
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

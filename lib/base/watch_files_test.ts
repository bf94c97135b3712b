import assert from "node:assert/strict";
import { join } from "node:path";
import { watchFiles } from "./watch_files.ts";

Deno.test("watch: a file that changes, is replaced, goes and comes back is told, once each", async () => {
  const folder = await Deno.makeTempDir();
  const [a, b] = [join(folder, "a"), join(folder, "b")];
  await Deno.writeTextFile(a, "1");
  let changes = 0;
  using watch = await watchFiles([a, b], {
    everyMs: 3_600_000,
    onChange: () => void changes++,
  });
  const after = async (work: () => Promise<unknown>) => {
    await work();
    await watch.check();
    await watch.check();
    return changes;
  };
  assert.equal(await after(() => Promise.resolve()), 0);
  assert.equal(await after(() => Deno.writeTextFile(a, "22")), 1);
  const replace = async () => {
    await Deno.writeTextFile(join(folder, "next"), "22");
    await Deno.rename(join(folder, "next"), a);
  };
  assert.equal(await after(replace), 2);
  assert.equal(await after(() => Deno.writeTextFile(b, "")), 3);
  assert.equal(await after(() => Deno.remove(a)), 4);
  // As a mounted cluster Secret changes: a link that leads elsewhere.
  assert.equal(await after(() => Deno.symlink(b, a)), 5);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("watch: by itself, and no more once it is let go of", async () => {
  const path = await Deno.makeTempFile();
  let told = false;
  const watch = await watchFiles([path], { everyMs: 5, onChange: () => void (told = true) });
  await Deno.writeTextFile(path, "changed");
  // Something else has to keep the process alive.
  while (!told) await new Promise((resolve) => setTimeout(resolve, 5));
  watch[Symbol.dispose]();
  await watch.check();
  await Deno.remove(path);
});

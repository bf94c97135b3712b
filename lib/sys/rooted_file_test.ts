import assert from "node:assert/strict";
import { removeTreeSync } from "./directory.ts";
import { mknod, S_IFCHR, S_IFIFO } from "./files.ts";
import { findRooted, readRooted, readRootedText, streamRooted } from "./rooted_file.ts";
import { modeInRunning, readRunning } from "./rooted_elsewhere.ts";

const linux = Deno.build.os === "linux";
const root = linux && Deno.uid() === 0;
if (!root && Deno.env.get("CI") === "true") throw new Error("these tests need root on Linux");

function test(name: string, fn: (folder: string) => void | Promise<void>, ignore = !linux) {
  Deno.test({ name: `files of other trees: ${name}`, ignore }, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-rooted-" });
    try {
      Deno.mkdirSync(`${folder}/root/etc`, { recursive: true });
      Deno.writeTextFileSync(`${folder}/outside`, "outside");
      Deno.writeTextFileSync(`${folder}/root/inside`, "inside");
      await fn(folder);
    } finally {
      removeTreeSync(folder);
    }
  });
}

test("links lead to what is in the tree, however they are written", (folder) => {
  const tree = `${folder}/root`;
  for (const target of ["/inside", "../inside", "../../../../inside", "../../outside/../inside"]) {
    Deno.symlinkSync(target, `${tree}/etc/link`);
    const expected = target.includes("outside") ? undefined : "inside";
    assert.equal(readRootedText(tree, "/etc/link", 100), expected, target);
    Deno.removeSync(`${tree}/etc/link`);
  }
  Deno.symlinkSync(`${folder}/outside`, `${tree}/out`);
  Deno.symlinkSync("/proc/self/root/etc/hostname", `${tree}/magic`);
  Deno.symlinkSync("again", `${tree}/again`);
  assert.equal(readRootedText(tree, "out", 100), undefined);
  assert.equal(readRootedText(tree, "magic", 100), undefined);
  assert.equal(readRootedText(tree, "../../outside", 100), undefined);
  assert.equal(readRootedText(tree, "inside/below", 100), undefined);
  assert.throws(() => readRooted(tree, "again", 100), { code: "argument_invalid" });
});

test("what is not a regular file is refused at once, by name", async (folder) => {
  const tree = `${folder}/root`;
  mknod(`${tree}/fifo`, S_IFIFO | 0o644);
  using _socket = Deno.listen({ transport: "unix", path: `${tree}/socket` });
  const kinds = { fifo: /FIFO/, socket: /socket/, etc: /folder/ };
  for (const [name, message] of Object.entries(kinds)) {
    const refused = { code: "argument_invalid", message };
    assert.throws(() => readRooted(tree, name, 100), refused);
    await assert.rejects(readRunning(tree, name, 100), refused);
    await assert.rejects(Array.fromAsync(streamRooted(tree, name)), refused);
  }
});

test("a device is not opened", (folder) => {
  const tree = `${folder}/root`;
  // The zeros never end.
  mknod(`${tree}/zero`, S_IFCHR | 0o666, 1, 5);
  assert.throws(() => readRooted(tree, "zero", 100), {
    code: "argument_invalid",
    message: /character device/,
  });
}, !root);

test("nothing is read beyond the cap", async (folder) => {
  const tree = `${folder}/root`;
  Deno.writeTextFileSync(`${tree}/sparse`, "");
  Deno.truncateSync(`${tree}/sparse`, 20e9);
  assert.throws(() => readRooted(tree, "sparse", 1 << 20), { code: "too_large" });
  await assert.rejects(readRunning(tree, "sparse", 1 << 20), { code: "too_large" });
  assert.equal(readRootedText(tree, "inside", 6), "inside");
  assert.throws(() => readRooted(tree, "inside", 5), { code: "too_large" });
  // Files of /proc say that they have nothing.
  assert.ok(readRooted("/proc/self", "status", 1 << 20)!.length > 100);
  assert.throws(() => readRooted("/proc/self", "status", 10), { code: "too_large" });
});

test("a link that is not followed is found itself", (folder) => {
  Deno.symlinkSync("/inside", `${folder}/root/link`);
  using link = findRooted(`${folder}/root`, "link", { follow: false });
  assert.equal(link!.stat.mode >> 12, 0o12);
});

test("other mounts are looked at in another thread", async (folder) => {
  const tree = `${folder}/root`;
  const { mount, unmount } = await import("./mount.ts");
  mount("tmpfs", `${tree}/etc`, "tmpfs", 0);
  try {
    Deno.writeTextFileSync(`${tree}/etc/passwd`, "root:x:0:0::/root:/bin/sh\n");
    mknod(`${tree}/etc/fifo`, S_IFIFO | 0o644);
    const text = new TextDecoder().decode(await readRunning(tree, "/etc/passwd", 1000));
    assert.equal(text, "root:x:0:0::/root:/bin/sh\n");
    assert.equal((await modeInRunning(tree, "/etc/passwd"))! & 0o170000, 0o100000);
    assert.equal(await readRunning(tree, "/etc/none", 1000), undefined);
    assert.equal(await modeInRunning(tree, "/etc/none"), undefined);
    await assert.rejects(readRunning(tree, "/etc/passwd", 10), { code: "too_large" });
    await assert.rejects(readRunning(tree, "/etc/fifo", 10), { code: "argument_invalid" });
  } finally {
    unmount(`${tree}/etc`, { detach: true });
  }
}, !root);

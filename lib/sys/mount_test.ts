import assert from "node:assert/strict";
import { systemCode } from "../base/errors.ts";
import { bindMount, canMount, mountOverlay, unmount, unmountElsewhere } from "./mount.ts";
import { isMounted, mountsUnder, parseMountinfo } from "./mountinfo.ts";

const able = canMount();
if (!able && Deno.env.get("CI") === "true") throw new Error("these tests need root (mount)");

/** `lowerdir+` of fsconfig(2). */
const [major, minor] = Deno.osRelease().split(".").map(Number);
const lowerByParts = major > 6 || major === 6 && minor >= 8;
if (!lowerByParts) console.warn("long overlay options are not tested: Linux is older than 6.8");

function test(name: string, fn: (folder: string) => Promise<void>, ignore = false) {
  Deno.test({ name: `mount: ${name}`, ignore: ignore || !able }, async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc mount-" });
    try {
      await fn(folder);
    } finally {
      for (const { target } of await mountsUnder(folder)) unmount(target, { detach: true });
      await Deno.remove(folder, { recursive: true });
    }
  });
}

test("bind, read-only, and what is mounted where", async (folder) => {
  await Deno.mkdir(`${folder}/a`);
  await Deno.mkdir(`${folder}/b`);
  assert.equal(await isMounted(`${folder}/b`), false);
  assert.equal(unmount(`${folder}/b`), false);
  assert.equal(unmount(`${folder}/none`), false);
  bindMount(`${folder}/a`, `${folder}/b`, { readOnly: true });
  assert.ok(await isMounted(`${folder}/b`));
  const [entry] = await mountsUnder(folder);
  assert.equal(entry.target, `${folder}/b`);
  assert.ok(entry.readOnly);
  await Deno.writeTextFile(`${folder}/a/x`, "seen");
  assert.equal(await Deno.readTextFile(`${folder}/b/x`), "seen");
  assert.throws(
    () => Deno.writeTextFileSync(`${folder}/b/y`, ""),
    (error) => systemCode(error) === "EROFS",
  );
  assert.equal(unmount(`${folder}/b`), true);
  assert.throws(
    () => bindMount(`${folder}/none`, `${folder}/b`),
    (error) => systemCode(error) === "ENOENT",
  );
});

test("unmounting in another thread: what is none, what is busy", async (folder) => {
  await Deno.mkdir(`${folder}/a`);
  assert.equal(await unmountElsewhere(`${folder}/a`), false);
  assert.equal(await unmountElsewhere(`${folder}/none`), false);
  bindMount(`${folder}/a`, `${folder}/a`);
  {
    using _open = await Deno.open(`${folder}/a/x`, { write: true, create: true });
    await assert.rejects(
      unmountElsewhere(`${folder}/a`),
      (error) => systemCode(error) === "EBUSY",
    );
    assert.ok(await isMounted(`${folder}/a`));
    assert.equal(await unmountElsewhere(`${folder}/a`, { detach: true }), true);
  }
  assert.equal(await isMounted(`${folder}/a`), false);
});

test("mounts below are named innermost first", async (folder) => {
  await Deno.mkdir(`${folder}/a/b`, { recursive: true });
  bindMount(`${folder}/a`, `${folder}/a`);
  bindMount(`${folder}/a/b`, `${folder}/a/b`);
  assert.deepEqual(
    (await mountsUnder(folder)).map((entry) => entry.target),
    [`${folder}/a/b`, `${folder}/a`],
  );
});

test("overlay with odd characters in its paths", async (folder) => {
  for (const name of ["low:er", "upp,er", "work", "merged"]) await Deno.mkdir(`${folder}/${name}`);
  await Deno.writeTextFile(`${folder}/low:er/a`, "one");
  mountOverlay(`${folder}/merged`, {
    lower: [`${folder}/low:er`],
    upper: `${folder}/upp,er`,
    work: `${folder}/work`,
  });
  await Deno.remove(`${folder}/merged/a`);
  assert.ok((await Deno.lstat(`${folder}/upp,er/a`)).isCharDevice);
  unmount(`${folder}/merged`);
});

test("overlay with more options than a page holds, where the kernel can", async (folder) => {
  const lower: string[] = [];
  for (let i = 0; i < 90; i++) {
    lower.push(`${folder}/${"l".repeat(60)}${i}`);
    await Deno.mkdir(lower[i]);
    await Deno.writeTextFile(`${lower[i]}/f${i}`, "");
  }
  await Deno.mkdir(`${folder}/merged`);
  mountOverlay(`${folder}/merged`, { lower });
  assert.equal([...Deno.readDirSync(`${folder}/merged`)].length, 90);
  unmount(`${folder}/merged`);
}, !lowerByParts);

Deno.test("mountinfo: escapes, optional fields, and lines that are none", () => {
  const text = [
    String
      .raw`36 35 98:0 /mnt1 /mnt\0402 rw,noatime shared:1 master:2 - ext3 /dev/ro\011ot rw,errors=continue`,
    "37 36 0:22 / /proc ro,nosuid - proc proc rw",
    "nonsense",
    "",
  ].join("\n");
  assert.deepEqual(parseMountinfo(text), [
    { target: "/mnt 2", root: "/mnt1", type: "ext3", source: "/dev/ro\tot", readOnly: false },
    { target: "/proc", root: "/", type: "proc", source: "proc", readOnly: true },
  ]);
});

import assert from "node:assert/strict";
import { join } from "node:path";
import { mknod, S_IFIFO } from "../sys/files.ts";
import { lookupUser, resolveUser } from "./user.ts";
import { locate } from "../sys/rooted.ts";

const PASSWD =
  "root:x:0:0:root:/root:/bin/sh\n# comment\nweb:x:100:101:Web:/srv/web:/bin/sh\nbad\n";
const GROUP = "root:x:0:\nweb:x:101:\nlog:x:102:web,other\nadm:x:103:web\n";

Deno.test("names, numbers and groups resolve against passwd and group", () => {
  const full = (user: string, add?: string[]) => {
    const { uid, gid, additionalGids, home } = lookupUser(PASSWD, GROUP, user, add);
    return [uid, gid, additionalGids, home];
  };
  assert.deepEqual(full(""), [0, 0, [], "/root"]);
  assert.deepEqual(full("web"), [100, 101, [102, 103], "/srv/web"]);
  assert.deepEqual(full("100"), [100, 101, [102, 103], "/srv/web"]);
  assert.deepEqual(full("web:log"), [100, 102, [], "/srv/web"]);
  assert.deepEqual(full("1234"), [1234, 0, [], "/"]);
  assert.deepEqual(full("1234:5678"), [1234, 5678, [], "/"]);
  assert.deepEqual(full(":log"), [0, 102, [], "/root"]);
  assert.deepEqual(full("web", ["7", "log"]), [100, 101, [102, 103, 7], "/srv/web"]);
});

Deno.test("unknown names and numbers out of range are refused by name", () => {
  const refused = (user: string, message: RegExp) =>
    assert.throws(() => lookupUser(PASSWD, GROUP, user), { code: "argument_invalid", message });
  refused("nobody", /nobody.*passwd/);
  refused("web:nogroup", /nogroup.*group/);
  refused("4294967295", /out of range/);
});

Deno.test("a passwd link that leads out of the root is read inside it", async () => {
  const root = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(root, "etc"));
    await Deno.mkdir(join(root, "real"));
    await Deno.symlink("../../../../real/passwd", join(root, "etc/passwd"));
    await Deno.writeTextFile(join(root, "real/passwd"), "inner:x:42:43::/:/bin/sh\n");
    assert.equal((await resolveUser(root, "inner")).uid, 42);
    assert.equal(locate(root, "/etc/passwd").host, join(root, "real/passwd"));
    await Deno.symlink("loop", join(root, "loop"));
    assert.throws(() => locate(root, "/loop/x"), { code: "argument_invalid" });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

Deno.test("a passwd or group that nobody would come to the end of is refused by name", async () => {
  const root = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(root, "etc"));
    mknod(join(root, "etc/passwd"), S_IFIFO | 0o644);
    for (const user of ["", "0", "web"]) {
      await assert.rejects(resolveUser(root, user), {
        code: "argument_invalid",
        message: "Cannot read /etc/passwd: it is a FIFO, not a regular file",
      });
    }
    await Deno.remove(join(root, "etc/passwd"));
    await Deno.writeTextFile(join(root, "etc/group"), "");
    await Deno.truncate(join(root, "etc/group"), 20e9);
    await assert.rejects(resolveUser(root, "0"), { code: "too_large", message: /etc\/group/ });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

import assert from "node:assert/strict";
import { join } from "node:path";
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

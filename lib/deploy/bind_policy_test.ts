import assert from "node:assert/strict";
import { join } from "node:path";
import { allowedSource } from "./bind_policy.ts";

Deno.test("sources: denied by default, allowed below a prefix, links cannot lead out", async () => {
  const root = await Deno.makeTempDir();
  try {
    const inside = join(root, "ok");
    await Deno.mkdir(inside);
    await Deno.mkdir(join(root, "okay"));
    await Deno.symlink("/etc", join(inside, "out"));
    const denied = { code: "denied" };
    await assert.rejects(allowedSource(inside, [], "mounts[0]"), {
      ...denied,
      help: /SVC_ALLOW_BIND_SOURCES/,
    });
    assert.equal(await allowedSource(inside, [inside], "mounts[0]"), await Deno.realPath(inside));
    await assert.rejects(allowedSource(join(root, "okay"), [inside], "mounts[0]"), denied);
    await assert.rejects(allowedSource(`${inside}/../okay`, [inside], "mounts[0]"), denied);
    await assert.rejects(allowedSource(join(inside, "out"), [inside], "mounts[0]"), denied);
    await assert.rejects(allowedSource(join(inside, "none"), [inside], "mounts[0]"), {
      code: "not_found",
    });
    assert.equal(await allowedSource("/etc", ["/"], "mounts[0]"), "/etc");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});

import assert from "node:assert/strict";
import { join } from "node:path";
import { SvcError } from "../../base/errors.ts";
import { NOBODY } from "../../client/prompt.ts";
import { agentsOf, contextsOf, secretsOf } from "./inputs.ts";

const refused = (pattern: RegExp) => (error: unknown) =>
  error instanceof SvcError && error.code === "argument_invalid" && pattern.test(error.message);

async function withFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-inputs-" });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("--secret: from a file, a variable, or what has the id's name", async () => {
  await withFolder(async (folder) => {
    const file = join(folder, "a,b");
    await Deno.writeTextFile(file, "in the file");
    const text = async (spec: string, env = {}) => {
      const [[id, read]] = secretsOf([spec], env);
      return [id, new TextDecoder().decode(await read())];
    };
    assert.deepEqual(await text(`id=x,"src=${file}"`), ["x", "in the file"]);
    assert.deepEqual(await text(`id=x,"source=${file}"`), ["x", "in the file"]);
    assert.deepEqual(await text("id=x,env=VALUE", { VALUE: "v" }), ["x", "v"]);
    assert.deepEqual(await text("id=VALUE", { VALUE: "v" }), ["VALUE", "v"]);
    assert.deepEqual(await text("type=env,id=VALUE", { VALUE: "" }), ["VALUE", ""]);
    const bad: [string, RegExp][] = [
      ["src=x", /it has no id/],
      ["id=a/b,src=x", /it has no id/],
      [`id=x,src=${folder}/none`, /secret x \S+\/none: there is no such file/],
      ["id=nonexistent-file", /there is no such file/],
      [`id=x,src=${folder}`, /is a directory/],
      ["id=x,env=NONE", /the variable NONE is not set/],
      ["id=x,mode=1", /mode is unknown/],
      ["id=x,type=vault", /type vault is unknown/],
    ];
    for (const [spec, pattern] of bad) {
      assert.throws(() => secretsOf([spec], {}), refused(pattern), spec);
    }
  });
});

Deno.test({
  name: "--ssh: the agent of the environment, or a socket",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    await withFolder(async (folder) => {
      const path = join(folder, "agent");
      using agent = Deno.listen({ transport: "unix", path });
      const env = { SSH_AUTH_SOCK: path };
      for (const [spec, id] of [["default", "default"], [`work=${path}`, "work"]]) {
        const [[found, connect]] = await agentsOf([spec], env, NOBODY);
        assert.equal(found, id);
        (await connect()).reset();
        (await agent.accept()).close();
      }
      const fails = (spec: string, why: RegExp) =>
        assert.rejects(agentsOf([spec], {}, NOBODY), refused(why), spec);
      await fails("default", /SSH_AUTH_SOCK is not set/);
      await fails(`x=${folder}`, /neither an agent's socket nor a private key's file/);
      await fails(`x=${folder}/none`, /there is no such file/);
      await fails("=x", /it has no id/);
      await Deno.writeTextFile(`${folder}/file`, "no key\n");
      await fails(`x=${path},${folder}/file`, /a socket and something else/);
      await assert.rejects(agentsOf([`x=${folder}/file`], {}, NOBODY), {
        message: /file: it is not a private key/,
      });
    });
  },
});

Deno.test("--build-context: folders stay here, the rest is the server's", async () => {
  await withFolder(async (folder) => {
    const found = contextsOf([
      `Lib=${folder}`,
      "base=docker-image://alpine:3",
      "src=https://example.org/a.git#main",
      "other=git@example.org:a/b.git",
    ]);
    assert.deepEqual([...found.folders], [["lib", folder]]);
    assert.deepEqual(found.elsewhere, [
      "base=docker-image://alpine:3",
      "src=https://example.org/a.git#main",
      "other=git@example.org:a/b.git",
    ]);
    const file = join(folder, "file");
    await Deno.writeTextFile(file, "");
    const bad: [string, RegExp][] = [
      ["name", /expected NAME=PATH/],
      ["=x", /expected NAME=PATH/],
      ["name=", /expected NAME=PATH/],
      [`name=${folder}/none`, /there is no such file/],
      [`name=${file}`, /is not a directory/],
      ["name=oci-layout://x", /oci-layout is not a known kind of context/],
    ];
    for (const [spec, pattern] of bad) {
      assert.throws(() => contextsOf([spec]), refused(pattern), spec);
    }
  });
});

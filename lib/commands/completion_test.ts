import assert from "node:assert/strict";
import { svcFake } from "../../test/fixtures/cli.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ commands: ["bash"] });

async function profile() {
  const path = await Deno.makeTempFile({ suffix: ".yaml" });
  await Deno.writeTextFile(
    path,
    "contexts:\n  prod: {server: http://a}\n  preview: {server: http://b}\n",
  );
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path) };
}

Deno.test("completion: commands, options, verbs, choices, contexts, files", async () => {
  await using file = await profile();
  const complete = async (...words: string[]) => {
    const { code, stdout } = await svcFake(["completion", "candidates", "--", ...words], {
      env: { SVC_CONFIG: file.path },
    });
    assert.equal(code, 0);
    return stdout.split("\n").slice(0, -1);
  };
  assert.deepEqual(await complete("dep"), ["deploy"]);
  assert.ok((await complete("")).includes("build"));
  assert.deepEqual(await complete("config", "use-"), ["use-context"]);
  assert.deepEqual(await complete("config", "use-context", "pr"), ["preview", "prod"]);
  assert.deepEqual(await complete("config", "use-context", "prod", ""), []);
  assert.deepEqual(await complete("ps", "--context", "pro"), ["prod"]);
  assert.deepEqual(await complete("--context", "prod", "ver"), ["version"]);
  assert.deepEqual(await complete("ps", "--output", ""), ["auto", "fancy", "json", "plain"]);
  assert.deepEqual(await complete("config", "set-context", "x", "--tls-cl"), [
    "--tls-client-cert",
    "--tls-client-key",
  ]);
  assert.deepEqual(await complete("build", "-f", ""), [":files"]);
  assert.deepEqual(await complete("cp", ""), [":files"]);
  assert.deepEqual(await complete("volume", "i"), ["inspect"]);
  assert.deepEqual(await complete("nothing-like-it", ""), []);
  assert.equal((await svcFake(["completion", "tcsh"])).code, 2);
});

Deno.test({ name: "completion: bash takes the script, and asks svc", ignore }, async () => {
  const { stdout } = await svcFake(["completion", "bash"]);
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/svc`, '#!/bin/sh\necho "asked: $*"\n', { mode: 0o755 });
    await Deno.writeTextFile(
      `${folder}/try`,
      `${stdout}\nCOMP_WORDS=(svc config use-context "")\nCOMP_CWORD=3\n_svc\nprintf '%s\\n' "\${COMPREPLY[@]}"\n`,
    );
    const output = await new Deno.Command("bash", {
      args: ["--norc", `${folder}/try`],
      env: { PATH: `${folder}:${Deno.env.get("PATH")}` },
    }).output();
    assert.equal(
      new TextDecoder().decode(output.stdout),
      "asked: completion candidates -- config use-context \n",
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

for (const shell of ["zsh", "fish"]) {
  Deno.test(`completion: a script for ${shell}`, async () => {
    const { code, stdout } = await svcFake(["completion", shell]);
    assert.equal(code, 0);
    assert.match(stdout, /svc completion candidates -- /);
  });
}

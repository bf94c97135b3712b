/** A build folder that somebody damaged: builds heal it, and give what they gave before. */
import assert from "node:assert/strict";
import { build } from "../../test/contract/builder_fixture.ts";
import { type EngineFixture, openNewEngine } from "../../test/contract/engine_fixture.ts";
import { requireTools } from "../../test/e2e/harness.ts";

const { ignore } = requireTools({ root: true, commands: ["runc"], files: ["/bin/busybox"] });

/** Files that the engine and the snapshotter keep, but for the contents of trees. */
function* keptFiles(folder: string): Generator<string> {
  for (const { name, isDirectory, isFile } of Deno.readDirSync(folder)) {
    if (isFile) yield `${folder}/${name}`;
    else if (isDirectory && name !== "fs") yield* keptFiles(`${folder}/${name}`);
  }
}

const DAMAGES: Record<string, (path: string) => void> = {
  "cut off": (path) => Deno.truncateSync(path, Math.floor(Deno.statSync(path).size / 2)),
  "other JSON": (path) => Deno.writeTextFileSync(path, '{"dir":[],"key":null,"snapshot":7}'),
  missing: (path) => Deno.removeSync(path),
  "a folder": (path) => {
    Deno.removeSync(path);
    Deno.mkdirSync(path);
  },
};

Deno.test({
  name: "damage: every file that is kept, each way; with a server running and without",
  ignore,
  fn: async () => {
    await using first = await openNewEngine();
    const files = {
      Dockerfile: [
        "FROM base",
        "COPY f /f",
        "RUN --mount=type=cache,target=/c touch /c/x; cat /f > /g",
        "RUN --mount=type=bind,target=/m cat /m/f",
      ].join("\n"),
      f: "text\n",
    };
    const reproducible = { reproducible: true };
    const { result } = await build(first.builder, files, reproducible);
    let now: EngineFixture = first;
    for (const [how, damage] of Object.entries(DAMAGES)) {
      for (const running of [true, false]) {
        if (!running) await now.builder[Symbol.asyncDispose]();
        const kept = ["build", "snapshots"].flatMap((name) => [
          ...keptFiles(`${first.folder}/${name}`),
        ]);
        assert.ok(kept.length >= 4, kept.join());
        for (const path of kept) damage(path);
        if (!running) now = await now.again();
        const again = await build(now.builder, files, reproducible);
        assert.equal(again.result.digest, result.digest, `${how}, running: ${running}`);
      }
    }
    await now.assertClean();
  },
});

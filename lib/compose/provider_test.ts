/** Provider services: what the program is given, and what becomes of what it says. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loadProject } from "./load.ts";
import { bringUpProvided, checkProvider, removeProvided } from "./provider.ts";
import type { Step } from "./steps.ts";

/** A folder with a program `prov` of this script, on PATH, and a project that uses it. */
async function provided(script: string, options = "{ kind: mysql, many: [a, b] }") {
  const folder = await Deno.makeTempDir();
  await Deno.writeTextFile(join(folder, "prov"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await Deno.writeTextFile(
    join(folder, "compose.yaml"),
    `name: pv\nservices:\n  db:\n    provider: { type: prov, options: ${options} }\n`,
  );
  await Deno.writeTextFile(join(folder, ".env"), "WORD=said\n");
  const env = { PATH: `${folder}:${Deno.env.get("PATH")}` };
  const loaded = await loadProject({ files: [], profiles: [], envFiles: [], env, cwd: folder });
  const steps: Step[] = [];
  const providing = {
    loaded,
    report: (step: Step) => steps.push(step),
    signal: new AbortController().signal,
  };
  return {
    ...{ folder, loaded, steps, providing },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

const NO_METADATA = '[ "$2" = metadata ] && exit 1';

Deno.test("provider: its words, its environment, its messages, and variables for dependents", async () => {
  await using one = await provided(`${NO_METADATA}
echo "$* $PWD $COMPOSE_PROJECT_NAME $WORD" >> log
echo '{"type":"info","message":"preparing"}'
echo '{"type":"debug","message":"details"}'
echo '{"type":"setenv","message":"URL=http://x/?a=b"}'`);
  assert.deepEqual(await bringUpProvided("db", one.providing), { DB_URL: "http://x/?a=b" });
  assert.deepEqual(one.steps.map(({ id, status }) => `${id} ${status}`), [
    "db Creating",
    "db preparing",
    "db Created",
  ]);
  await removeProvided("db", one.providing);
  const words = "--kind=mysql --many=a --many=b db";
  assert.equal(
    await Deno.readTextFile(join(one.folder, "log")),
    ["up", "down"].map((verb) =>
      `compose --project-name=pv ${verb} ${words} ${one.folder} pv said\n`
    ).join(""),
  );
});

Deno.test("provider: only the options it says it has, and those it requires", async () => {
  const metadata = JSON.stringify({
    up: { parameters: [{ name: "size", required: true }, { name: "kind" }] },
  });
  const script = `[ "$2" = metadata ] && { echo '${metadata}'; exit 0; }; echo "$*" > log`;
  {
    await using one = await provided(script);
    await assert.rejects(bringUpProvided("db", one.providing), /prov requires the option size/);
  }
  await using one = await provided(script, "{ kind: mysql, size: 3, other: x }");
  await bringUpProvided("db", one.providing);
  assert.equal(
    await Deno.readTextFile(join(one.folder, "log")),
    "compose --project-name=pv up --kind=mysql --size=3 db\n",
  );
});

Deno.test("provider: errors, exit codes, other words, endless lines, a program that is not there", async () => {
  for (
    const [script, wanted] of [
      [`echo '{"type":"error","message":"no quota"}'; exec sleep 1000`, /prov says: no quota/],
      ["echo broken >&2; exit 3", /prov exited with 3: broken/],
      ["echo plain words", /"plain words" is no message/],
      ["head -c 3000000 /dev/zero", /more than 1048576 bytes/],
    ] as const
  ) {
    await using one = await provided(`${NO_METADATA}\n${script}`);
    await assert.rejects(bringUpProvided("db", one.providing), wanted);
    assert.equal(one.steps.at(-1)?.status, "Error");
  }
  await using one = await provided("");
  await Deno.remove(join(one.folder, "prov"));
  await assert.rejects(bringUpProvided("db", one.providing), /prov.* is not on PATH/);
});

Deno.test("provider: a program that says endlessly what it can do is one that does not tell", async () => {
  await using one = await provided('[ "$2" = metadata ] && exec yes; echo "$*" > log');
  await bringUpProvided("db", one.providing);
  assert.match(await Deno.readTextFile(join(one.folder, "log")), / up --kind=mysql /);
});

Deno.test("provider: a path, or words of a shell, name no provider", async () => {
  await using one = await provided("");
  for (const type of ["./prov", "/bin/sh", "../x", "-x", "", "compose", "a b"]) {
    assert.throws(() => checkProvider(one.loaded, "db", { type }), /is not a valid provider type/);
  }
  checkProvider(one.loaded, "db", { type: "prov" });
  // `down` asks for no spec: it must not run what `up` refuses.
  one.loaded.project.services.db.provider = { type: "./prov" };
  await assert.rejects(removeProvided("db", one.providing), /is not a valid provider type/);
});

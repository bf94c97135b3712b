/** What images and features say, below devcontainer.json. The merge is compared with the field's own program in e2e. */
import assert from "node:assert/strict";
import { entriesOf, entryOf, raisedRights, withEntries } from "./metadata.ts";
import { devcontainerOptions } from "./model.ts";
import { readDevcontainer } from "./read.ts";

async function read(json: string) {
  const file = await Deno.makeTempFile({ suffix: "devcontainer.json" });
  try {
    await Deno.writeTextFile(file, json);
    return await readDevcontainer(file, { WORD: "secret" }, { asked: true });
  } finally {
    await Deno.remove(file);
  }
}

const OPTIONS = { files: [], profiles: [], envFiles: [], env: {} };

Deno.test("metadata: an image may ask for no folder of this machine, and learns none of its variables", async () => {
  const dev = await read(`{ "image": "a", "containerEnv": { "MINE": "\${localEnv:WORD}" } }`);
  const env = {
    A: "${localEnv:WORD}",
    B: "${localEnv:WORD:none}",
    C: "${devcontainerId}",
    D: "$X",
  };
  const [entry] = entriesOf(JSON.stringify({ containerEnv: env }), dev, "a");
  const { A, B, C, D } = entry.containerEnv!;
  assert.deepEqual([A, B, C.length, D], ["", "none", 32, "$X"]);
  assert.equal(dev.fields.containerEnv!.MINE, "secret");
  const refused = (value: object) => () => entriesOf(JSON.stringify(value), dev, "a");
  assert.throws(refused({ containerEnv: { WORD: null } }), /containerEnv\.WORD: it has no value/);
  for (const port of ["0.0.0.0:22:22", "[::]:22:22", "22-30:22-30", "22:22"]) {
    assert.throws(refused({ forwardPorts: [port] }), /is neither PORT nor HOST:PORT/);
  }
  refused({ forwardPorts: [22, "22", "localhost:22", "db:22"] })();
  for (const mount of ["type=bind,source=/,target=/h", { type: "bind", target: "/h" }]) {
    assert.throws(
      () => entryOf({ mounts: [mount] }, dev, "the feature f"),
      /the feature f: it asks/,
    );
  }
});

Deno.test("metadata: rubbish is told; what is of no concern is passed over", async () => {
  const dev = await read(`{ "image": "a" }`);
  assert.throws(() => entriesOf("{", dev, "the label"), /the label: it is no JSON/);
  assert.throws(() => entriesOf("[3]", dev, "l"), /expected a mapping/);
  assert.throws(() => entriesOf(`{ "capAdd": "X" }`, dev, "l"), /capAdd: expected list, got text/);
  const passed = { id: "f", customizations: {}, image: "evil", runArgs: ["--privileged"] };
  assert.deepEqual(entriesOf(JSON.stringify(passed), dev, "l"), [{}]);
  // What is made to take long to read does not.
  const long = "${a:".repeat(500_000);
  assert.deepEqual(entriesOf(JSON.stringify({ remoteUser: long }), dev, "l"), [{
    remoteUser: long,
  }]);
  // A feature's variables are its image's; what only an image says does not count.
  assert.deepEqual(entryOf({ containerEnv: { P: "${P}:/x" }, remoteUser: "u" }, dev, "f"), {});
});

Deno.test("metadata: entrypoints run before the own process, or before waiting; more rights are told", async () => {
  const dev = await read(`{ "image": "a", "capAdd": ["A"], "overrideCommand": false }`);
  const entries = [{ entrypoint: "/one", capAdd: ["A", "B"] }, { privileged: true }, {
    entrypoint: "/two",
  }];
  const all = { ...withEntries(dev, entries), process: ["run", "it"] };
  assert.deepEqual(raisedRights(all, dev), ["privileged", "B"]);
  const serviceIn = (of: typeof dev) => {
    const { texts } = devcontainerOptions(of, OPTIONS);
    return JSON.parse(texts!.get(dev.file)!.replaceAll("$$", "$")).services.devcontainer;
  };
  const { entrypoint: [, , script], command } = serviceIn(all);
  assert.match(script, /\n\/one\n\/two\nexec "\$@"\n/);
  assert.deepEqual(command, ["run", "it"]);
  const waiting = withEntries(dev, [...entries, { overrideCommand: true }]);
  assert.equal(waiting.fields.overrideCommand, false, "the file is the last");
  const { overrideCommand: _, ...fields } = dev.fields;
  const idle = withEntries({ ...dev, fields }, [...entries, { overrideCommand: true }]);
  assert.deepEqual(serviceIn({ ...idle, process: ["run"] }).command, []);
});

/** Features: their options, their order, and where they may come from. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { readDevcontainer } from "../../../compose/devcontainer/read.ts";
import { writeTar } from "../../../oci/tar_write.ts";
import { MEDIA } from "../../../oci/types.ts";
import type { Registries } from "../../../transfer/registries.ts";
import { smallImage } from "../../../../test/fixtures/small_images.ts";
import { install } from "./image.ts";
import { type Feature, ordered, resolveFeatures } from "./features.ts";

const feature = (reference: string, fields: Feature["fields"] = {}): Feature => ({
  ...{ reference, fields, folder: "", digest: "", variables: {} },
});

const orderOf = (features: Feature[], first?: string[]) =>
  ordered(features, first).map(({ reference }) => reference);

Deno.test("features: in their order; what is needed before, what is wished for where it can be", () => {
  const [a, b] = [feature("r.io/x/a:1"), feature("r.io/x/b:2")];
  assert.deepEqual(orderOf([a, b]), ["r.io/x/a:1", "r.io/x/b:2"]);
  assert.deepEqual(orderOf([a, b], ["r.io/x/b"]), ["r.io/x/b:2", "r.io/x/a:1"]);
  const after = feature("r.io/x/a:1", { installsAfter: ["r.io/x/b"] });
  assert.deepEqual(orderOf([after, b]), ["r.io/x/b:2", "r.io/x/a:1"]);
  const circle = feature("r.io/x/b:2", { installsAfter: ["r.io/x/a"] });
  assert.equal(orderOf([after, circle]).length, 2);
  const needs = feature("r.io/x/a:1", { dependsOn: { "r.io/x/b:1": {} } });
  assert.deepEqual(orderOf([needs, b], ["r.io/x/a"]), ["r.io/x/b:2", "r.io/x/a:1"]);
  const needed = feature("r.io/x/b:2", { dependsOn: { "r.io/x/a": {} } });
  assert.throws(() => orderOf([needs, needed]), /need one another/);
});

/** Resolves the features of a devcontainer.json beside a feature `own`. */
async function resolved(
  features: string,
  prepare?: (dev: string) => Promise<void>,
  more: Partial<Parameters<typeof resolveFeatures>[0]> = {},
) {
  const folder = await Deno.makeTempDir();
  const dev = join(folder, ".devcontainer");
  await Deno.mkdir(join(dev, "own"), { recursive: true });
  await Deno.writeTextFile(
    join(dev, "own/devcontainer-feature.json"),
    `{ "id": "own", "options": { "the-size": { "type": "string", "default": "small", "enum": ["small", "big"] },
       "fast": { "type": "boolean", "default": true } } }`,
  );
  await prepare?.(dev);
  await Deno.writeTextFile(
    join(dev, "devcontainer.json"),
    `{ "image": "a", "features": ${features} }`,
  );
  try {
    return await resolveFeatures({
      dev: await readDevcontainer(join(dev, "devcontainer.json"), {}, { asked: true }),
      registries: {} as Registries,
      scratch: folder,
      signal: new AbortController().signal,
      ...more,
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("features: options become variables; defaults and choices count", async () => {
  const [{ variables }] = await resolved(`{ "./own": { "the-size": "big", "1x": "y" } }`);
  assert.deepEqual(variables, { THE_SIZE: "big", FAST: "true", _X: "y" });
  assert.deepEqual((await resolved(`{ "./own": "2" }`))[0].variables.VERSION, "2");
  assert.deepEqual(await resolved(`{ "./own": false }`), []);
  await assert.rejects(resolved(`{ "./own": { "the-size": "huge" } }`), /one of small, big/);
});

Deno.test("features: what they say cannot become an instruction of the Dockerfile", () => {
  const users = { container: "dev", remote: "it's\nme" };
  const one = { ...feature("r.io/x/a:1"), variables: { V: "a'b\nCOPY . /x" } };
  const lines = install({ ...one, fields: { containerEnv: { P: 'q"\nUSER x$PATH' } } }, 0, users);
  assert.ok(lines.every((line) => !line.includes("\n")), lines.join("\n"));
  assert.match(lines[1], /export V='a'\\''b COPY \. \/x'; export _REMOTE_USER='it'\\''s me'; /);
  assert.equal(lines[2], 'ENV P="q\\" USER x$PATH"');
  const bad = { ...one, fields: { containerEnv: { "A=1\nCOPY . /x\nENV B": "c" } } };
  assert.throws(() => install(bad, 0, users), /Cannot use the variable/);
});

Deno.test("features: of folders elsewhere, of the web and of no registry are refused", async () => {
  await assert.rejects(resolved(`{ "../../etc": {} }`), /is not below/);
  await assert.rejects(resolved(`{ "https://x.org/f.tgz": {} }`), /from registries alone/);
  await assert.rejects(resolved(`{ "node": {} }`), /names no registry/);
  await assert.rejects(resolved(`{ "./missing": {} }`), /No such file/);
  await assert.rejects(
    resolved(`{ "./link": {} }`, (dev) => Deno.symlink("/etc", join(dev, "link"))),
    /it leads out of/,
  );
});

Deno.test("features: one that describes itself by a device is refused", async () => {
  const replace = async (dev: string) => {
    const path = join(dev, "own/devcontainer-feature.json");
    await Deno.remove(path);
    await Deno.symlink("/dev/zero", path);
  };
  await assert.rejects(resolved(`{ "./own": {} }`, replace), /it is no regular file/);
});

Deno.test("features: what all of them unpack together is bounded", async () => {
  const { bytes, layers: [{ size }] } = smallImage("feature", ["archive"]);
  // Every feature is the same one, with 600 KB of files.
  const registry = {
    resolve: () => Promise.resolve({ bytes, descriptor: { mediaType: MEDIA.manifest, size } }),
    get: () =>
      Promise.resolve({
        stream: () =>
          writeTar([
            {
              path: "devcontainer-feature.json",
              type: "file",
              body: new TextEncoder().encode("{}"),
            },
            { path: "install.sh", type: "file", body: new Uint8Array(600_000) },
          ]),
      }),
  };
  const registries = { get: () => registry } as unknown as Registries;
  const one = `"r.io/x/a:1": {}`;
  const room = 1_000_000;
  assert.equal((await resolved(`{ ${one} }`, undefined, { registries, room })).length, 1);
  await assert.rejects(
    resolved(`{ ${one}, "r.io/x/b:1": {} }`, undefined, { registries, room }),
    /r\.io\/x\/b:1: all features together have more than 1024 MiB/,
  );
});

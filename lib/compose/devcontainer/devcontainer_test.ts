/** devcontainer.json: how it is read, and the project that it becomes. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loadProject } from "../load.ts";
import { parseJsonc } from "./jsonc.ts";
import { devcontainerOptions } from "./model.ts";
import { findDevcontainer, readDevcontainer } from "./read.ts";

/** A workspace "shop" with this devcontainer.json and other files. */
async function workspace(json: string, files: Record<string, string> = {}) {
  const folder = join(await Deno.realPath(await Deno.makeTempDir()), "shop");
  const all = { ".devcontainer/devcontainer.json": json, ...files };
  for (const [path, text] of Object.entries(all)) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(folder, path), text);
  }
  const file = join(folder, ".devcontainer/devcontainer.json");
  const env = { WORD: "said" };
  const load = async () => {
    const dev = await readDevcontainer(file, env, { asked: true });
    const options = { files: [], profiles: [], envFiles: [], env, cwd: folder };
    const loaded = await loadProject(devcontainerOptions(dev, options));
    // Without what is undefined, and without objects that inherit nothing.
    return { dev, project: JSON.parse(JSON.stringify(loaded.project)) as typeof loaded.project };
  };
  return {
    ...{ folder, file, load },
    [Symbol.asyncDispose]: () => Deno.remove(join(folder, ".."), { recursive: true }),
  };
}

Deno.test("jsonc: comments and last commas are passed over, texts are not; errors have lines", () => {
  const text = `{ // a
  "a": "// no, /* no */, }", /* b
  */ "b": [1, 2, /* c */ ], // d
}`;
  assert.deepEqual(parseJsonc(text, "f"), { a: "// no, /* no */, }", b: [1, 2] });
  assert.equal(parseJsonc('"\\\\" // "', "f"), "\\");
  assert.throws(() => parseJsonc('{\n "a": 1\n "b": 2 }', "f.json"), /Cannot read f\.json:3: /);
});

Deno.test("jsonc: texts that are made to take long do not", () => {
  const many = (text: string) => text.repeat(500_000);
  assert.deepEqual(parseJsonc(`{"a":1,${many("// ")}\n"b":2}`, "f"), { a: 1, b: 2 });
  for (
    const text of [many("/*"), `"${many('\\"')}`, `"${many('\\"')}\\`, many(",\n"), many(", ")]
  ) {
    assert.throws(() => parseJsonc(text, "f.json"), /Cannot read f\.json/);
  }
});

Deno.test("devcontainer: an image, with everything that a service has a field for", async () => {
  await using one = await workspace(`{
    "image": "base:1", // the base
    "workspaceFolder": "/src/\${localWorkspaceFolderBasename}",
    "containerEnv": { "A": "\${localEnv:WORD}", "B": "\${localEnv:NONE:other}", "C": "$X" },
    "mounts": ["source=cache,target=/cache,type=volume", { "type": "tmpfs", "target": "/t" }],
    "forwardPorts": [3000, "8080:80"], "appPort": 9000,
    "containerUser": "dev", "init": true,
    "runArgs": ["--cap-add=SYS_PTRACE", "--hostname", "box"],
    "customizations": { "vscode": {} }, "featurs": {}
  }`);
  const { project, dev } = await one.load();
  assert.equal(project.name, "shop_devcontainer");
  const { entrypoint, ...service } = project.services.devcontainer;
  assert.match(entrypoint!.join(" "), /sleep/);
  assert.deepEqual({
    ...service,
    volumes: service.volumes?.map(({ type, source, target }) => [type, source, target]),
  }, {
    image: "base:1",
    command: [],
    working_dir: "/src/shop",
    user: "dev",
    init: true,
    cap_add: ["SYS_PTRACE"],
    hostname: "box",
    environment: { A: "said", B: "other", C: "$X" },
    networks: { default: null },
    ports: ["3000:3000", "8080:80", "9000:9000"].map((text) => {
      const [published, target] = text.split(":");
      return {
        ...{ mode: "ingress", target: Number(target), published, protocol: "tcp" },
        ...(published === target && { host_ip: "127.0.0.1" }),
      };
    }),
    volumes: [
      ["bind", one.folder, "/src/shop"],
      ["volume", "cache", "/cache"],
      ["tmpfs", undefined, "/t"],
    ],
  });
  assert.equal(project.volumes.cache.name, "cache");
  assert.deepEqual(dev.warnings, [
    `${one.file}: featurs is no known field; did you mean features?, and is ignored`,
  ]);
});

Deno.test("devcontainer: a Dockerfile, found from the file's own folder", async () => {
  await using one = await workspace(
    `{ "build": { "dockerfile": "Dockerfile", "context": "..", "args": { "V": "1" } }, "workspaceMount": "" }`,
  );
  const { project } = await one.load();
  const { build, volumes } = project.services.devcontainer;
  assert.deepEqual(build, {
    context: one.folder,
    dockerfile: join(one.folder, ".devcontainer/Dockerfile"),
    args: { V: "1" },
  });
  assert.equal(volumes, undefined);
});

Deno.test("devcontainer: a service of Compose files, with what the file adds to it", async () => {
  await using one = await workspace(
    `{ "dockerComposeFile": ["../compose.yaml"], "service": "web", "workspaceFolder": "/w",
       "forwardPorts": ["db:5432"], "containerEnv": { "A": "b" }, "overrideCommand": true }`,
    {
      "compose.yaml": "services: { web: { image: a, command: run, build: . }, db: { image: c } }\n",
    },
  );
  const { project, dev } = await one.load();
  assert.equal(project.name, "shop_devcontainer");
  assert.deepEqual(project.services.web.environment, { A: "b" });
  assert.equal(project.services.web.build?.context, one.folder);
  assert.deepEqual(project.services.web.command, []);
  assert.equal(project.services.db.ports?.[0].published, "5432");
  assert.deepEqual([dev.service, dev.workspaceFolder], ["web", "/w"]);
});

Deno.test("devcontainer: found here or above; what cannot be is an error", async () => {
  await using one = await workspace(`{ "image": "a" }`, { "deep/er/x": "" });
  assert.equal(await findDevcontainer(join(one.folder, "deep/er")), one.file);
  for (
    const [json, wanted] of [
      ["[]", /expected a mapping/],
      ["{}", /names neither image/],
      [`{ "dockerComposeFile": "x" }`, /needs the service/],
      [`{ "image": 3 }`, /image: expected text, got number/],
      [`{ "image": "a", "workspaceFolder": "w" }`, /expected an absolute path/],
      [`{ "image": "a", "runArgs": ["--gpus", "all"] }`, /runArgs: svc has no --gpus/],
    ] as const
  ) {
    await using bad = await workspace(json);
    await assert.rejects(bad.load(), wanted);
  }
  await Deno.remove(one.file);
  await Deno.symlink("/dev/zero", one.file);
  await assert.rejects(one.load(), /it is no regular file/);
});

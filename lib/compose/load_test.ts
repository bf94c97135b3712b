import assert from "node:assert/strict";
import { join } from "node:path";
import { loadProject } from "./load.ts";
import type { LoadedProject, LoadOptions } from "./project.ts";

/** Loads files that are written for one test; the first one is compose.yaml. */
async function load(
  files: Record<string, string>,
  more: Partial<LoadOptions> = {},
): Promise<LoadedProject> {
  const directory = await Deno.makeTempDir();
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.mkdir(join(directory, name, ".."), { recursive: true });
      await Deno.writeTextFile(join(directory, name), text);
    }
    return await loadProject({
      files: [],
      profiles: [],
      env: {},
      envFiles: [],
      cwd: directory,
      projectName: "test",
      ...more,
    });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("short forms are written out, and tell where they stand", async () => {
  const { project, place, directory } = await load({
    "compose.yaml": [
      "services:",
      "  web:",
      "    image: nginx:${TAG:-1}",
      "    ports:",
      "      - 8080:80",
      "    depends_on: [db]",
      "  db:",
      "    image: db",
      "    volumes: [./data:/data]",
    ].join("\n"),
  });
  const { web, db } = project.services;
  assert.equal(web.image, "nginx:1");
  assert.deepEqual(web.ports, [
    { mode: "ingress", target: 80, published: "8080", protocol: "tcp" },
  ]);
  assert.deepEqual(web.depends_on!.db, { condition: "service_started", required: true });
  assert.equal(db.volumes![0].source, join(directory, "data"));
  assert.equal(project.networks.default.name, "test_default");
  assert.deepEqual(place("services", "web", "ports", "0"), {
    file: join(directory, "compose.yaml"),
    line: 5,
  });
});

/** Fails within a bounded time, with an error of the Compose file. */
async function refused(files: Record<string, string>, message: RegExp, more = {}): Promise<void> {
  const started = performance.now();
  await assert.rejects(load(files, more), { code: "compose_invalid", message });
  assert.ok(performance.now() - started < 60_000);
}

const service = (lines: string) => `services:\n  web:\n    image: x\n${lines}`;

Deno.test("an error names file, line, path and the nearest key", async () => {
  await refused(
    { "compose.yaml": service("    enviroment:\n      A: 1\n") },
    /compose\.yaml:4: services\.web\.enviroment: unknown key; did you mean environment\?$/,
  );
  await refused(
    { "compose.yaml": service("    ports:\n      - 80\n      - 99999\n") },
    /compose\.yaml:6: services\.web\.ports\.1: "99999" is no port of the container/,
  );
  await refused(
    { "compose.yaml": service("    depends_on:\n      - databse\n  database:\n    image: x\n") },
    /compose\.yaml:5: services\.web\.depends_on\.databse: there is no service databse; did you mean database\?/,
  );
});

Deno.test("aliases that stand for very many values are refused", async () => {
  const levels = Array.from(
    { length: 12 },
    (_, level) =>
      `x-${level}: &a${level} [${Array(10).fill(level ? `*a${level - 1}` : "1").join()}]`,
  );
  await refused({ "compose.yaml": levels.join("\n") }, /stands for more than/);
  await refused({ "compose.yaml": "x-a: &a [*a]" }, /refers to itself/);
  await refused({ "compose.yaml": `x-a: ${"[".repeat(5000)}` }, /nested/);
});

Deno.test("files that include or extend each other in a circle are refused", async () => {
  await refused(
    {
      "compose.yaml": "include: [b/b.yaml]",
      "b/b.yaml": "include: [../compose.yaml]",
    },
    /compose\.yaml:1: .*include each other in a circle|b\.yaml:1: .*include each other in a circle/,
  );
  await refused({
    "compose.yaml": "services:\n  a: {extends: b}\n  b: {extends: a}",
  }, /compose\.yaml:\d+: services\.[ab]\.extends: services extend each other in a circle/);
  // Each includes the next one twice: 2^40 files.
  const files = Object.fromEntries(Array.from({ length: 40 }, (_, level) => [
    level === 0 ? "compose.yaml" : `${level}.yaml`,
    `include: [${level + 1}.yaml, {path: ${level + 1}.yaml}]`,
  ]));
  await refused({ ...files, "40.yaml": "services: {}" }, /reads more than|in a circle/);
});

Deno.test("text that variables make very long, or nest very deep, is refused", async () => {
  const doubled = Array.from({ length: 60 }, (_, level) => `A${level + 1}=$A${level}$A${level}`);
  await refused({
    "compose.yaml": service(""),
    ".env": ["A0=0123456789", ...doubled].join("\n"),
  }, /variables give more than/);
  await refused(
    { "compose.yaml": service(`    command: "${"${A:-".repeat(5000)}${"}".repeat(5000)}"\n`) },
    /variables within 50 others/,
  );
  const long = `    command: "${"${A:-b}".repeat(150_000)}"\n`;
  const { project } = await load({ "compose.yaml": service(long) });
  assert.equal(project.services.web.command![0].length, 150_000);
});

Deno.test("a device in the place of a file is refused", async () => {
  await refused({ "compose.yaml": "include: [/dev/zero]" }, /it is no regular file/);
  await refused({ "compose.yaml": "services: {}" }, /it has more than 2/, { files: ["/dev/zero"] });
});

Deno.test("files of other machines are refused by name", async () => {
  await refused(
    { "compose.yaml": "include: ['https://example.com/x.git']" },
    /https:\/\/example\.com\/x\.git is on another machine/,
  );
});

/** Rules of `develop.watch`: what they are about, where it goes, and what is refused. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { loadProject } from "../../../compose/load.ts";
import { Changes } from "./changes.ts";
import { watchedOf, watchedPaths } from "./rules.ts";

/** A folder with these files, the last of which is a Compose file with these rules. */
async function project(files: Record<string, string>, rules: string, more = "image: x") {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const text = `name: w\nservices:\n  web:\n    ${more}\n    develop:\n      watch:\n${
    rules.split("\n").map((line) => `        ${line}\n`).join("")
  }`;
  for (const [path, content] of Object.entries({ ...files, "compose.yaml": text })) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(folder, path), content);
  }
  const loaded = await loadProject({ files: [], profiles: [], envFiles: [], env: {}, cwd: folder });
  return {
    ...{ folder, rules: () => watchedOf(loaded, ["web"]) },
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}

Deno.test("watch: patterns are .dockerignore's, below the rule's path; the context's rules count too", async () => {
  await using one = await project(
    { "src/a.js": "", ".dockerignore": "src/private\n**/*.tmp\n" },
    "- { action: sync, path: ./src, target: /app, ignore: [node_modules, '*.log', '!keep.log'] }",
    "build: .",
  );
  const [watched] = await one.rules();
  const wants = (path: string, folder = false) => watched.wants(join(one.folder, path), folder);
  const wanted = ["src/a.js", "src/deep/x.log", "src/keep.log", "src/b/node_modules/x"];
  const unwanted = [
    ...[
      "src/x.log",
      "src/node_modules/x",
      "src/private/key",
      "src/a/b.tmp",
      "other/a.js",
      "compose.yaml",
    ],
    ...["src/.git/HEAD", "src/a.js~", "src/.a.js.swp", "src/4913"],
  ];
  assert.deepEqual(wanted.filter((path) => !wants(path)), []);
  assert.deepEqual(unwanted.filter((path) => wants(path)), []);
  assert.ok(wants("src/deep", true) && !wants("src/node_modules", true));
  assert.equal(watched.targetOf(join(one.folder, "src/deep/a")), "/app/deep/a");
  assert.equal(watched.targetOf(join(one.folder, "src")), "/app");
});

Deno.test("watch: with include only what it names, in folders that are looked into", async () => {
  await using one = await project(
    { "src/a.js": "" },
    "- { action: sync, path: ./src, target: /app, include: ['**/*.js'] }",
  );
  const [watched] = await one.rules();
  const wants = (path: string, folder = false) => watched.wants(join(one.folder, path), folder);
  assert.ok(wants("src/a.js") && wants("src/x/b.js") && wants("src/x", true));
  assert.ok(!wants("src/a.css") && !wants("src/x"));
});

Deno.test("watch: a single file is watched by its folder, and only it counts", async () => {
  await using one = await project(
    { "package.json": "", "src/a": "" },
    "- { action: restart, path: ./package.json }\n- { action: sync, path: ./src, target: /s }",
  );
  const rules = await one.rules();
  assert.deepEqual(watchedPaths(rules), { deep: [join(one.folder, "src")], flat: [one.folder] });
  assert.ok(rules[0].wants(join(one.folder, "package.json")));
  assert.ok(!rules[0].wants(join(one.folder, "package-lock.json")));
});

Deno.test("watch: a path that is a link is what it leads to", async () => {
  await using one = await project(
    { "real/a": "", ".dockerignore": "real/no" },
    "- { action: sync, path: ./link, target: /l }",
    "build: .",
  );
  await Deno.symlink("real", join(one.folder, "link"));
  const [watched] = await one.rules();
  assert.equal(watched.root, join(one.folder, "real"));
  assert.equal(watched.targetOf(join(one.folder, "real/a")), "/l/a");
  assert.ok(!watched.wants(join(one.folder, "real/no")));
});

Deno.test("watch: rules that cannot be followed are errors with their place", async () => {
  for (
    const [rule, wanted] of [
      ["{ action: rebuild, path: ./src }", /web has no build section/],
      ["{ action: sync, path: ./src, target: app }", /absolute target/],
      ["{ action: sync, path: ./missing, target: /a }", /compose\.yaml:\d+: .*no file or folder/],
    ] as const
  ) {
    await using one = await project({ "src/a": "" }, `- ${rule}`);
    await assert.rejects(one.rules(), wanted);
  }
  await using none = await project({}, "[]");
  await assert.rejects(none.rules(), /none of the selected services is configured for watch/);
});

Deno.test("watch: changes come in batches, once it is quiet; what failed can be added again", async () => {
  await using one = await project({ "src/a": "" }, "- { action: restart, path: ./src }");
  const src = join(one.folder, "src");
  using changes = new Changes({ deep: [src], flat: [] });
  await Deno.writeTextFile(join(src, "b"), "1");
  await Deno.writeTextFile(join(src, "c"), "2");
  await Deno.remove(join(src, "a"));
  const seen = new Set<string>();
  // Under load the changes may come in more than one batch.
  while (seen.size < 3) for (const path of await changes.next() ?? []) seen.add(path);
  assert.deepEqual([...seen].sort(), ["a", "b", "c"].map((name) => join(src, name)));
  changes.add(["again"]);
  assert.deepEqual(await changes.next(), ["again"]);
  const next = changes.next();
  changes[Symbol.dispose]();
  assert.equal(await next, undefined);
});

import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { ignoreFiles, ignorePatterns, parseIgnore } from "./ignore.ts";

/** Rules, then paths: those with "-" in front are excluded. */
const CASES: [name: string, rules: string, paths: string][] = [
  ["a name at the root only", "node_modules", "-node_modules -node_modules/a/b x/node_modules"],
  ["a leading slash means nothing", "/a", "-a -a/b b/a"],
  ["dots and double slashes are cleaned", "./a//b/../c/", "-a/c -a/c/d a/b"],
  ["star stays within a folder", "*.md", "-README.md docs/README.md x.mdx"],
  ["star in the middle", "a/*/c", "-a/b/c -a/b/c/d a/c a/b/b/c"],
  ["question mark", "a?c", "-abc ac a/c abbc"],
  ["classes", "[a-c]x[^0-9]", "-axz -cx- dxz ax5 ax"],
  ["double star before", "**/*.go", "-a.go -x/a.go -x/y/a.go a.goo"],
  ["double star behind", "a/**", "-a/b -a/b/c a b/a"],
  ["double star between", "a/**/z", "-a/z -a/b/z -a/b/c/z az b/a/z"],
  ["double star and an ending", "**.go", "-a.go -x/a.go -.go -x/.go a.goo go"],
  ["double star and a class", "**.g[o]", "-.go -x/.go a.go x/a.go"],
  ["double star in the middle of a name", "a**.go", "-a.go -a/.go -ax/.go ab.go"],
  ["double star alone", "**", "-a -a/b"],
  ["escaped wildcard", "a\\*", "-a* ab"],
  ["regular expression characters", "a.b+(c)|{d}$", "-a.b+(c)|{d}$ axb"],
  ["comments and blanks", "# a\n\n  \n\ta  \n #b", "-a # b"],
  ["an exception", "*.md\n!README.md", "-a.md README.md"],
  [
    "the last rule wins",
    "*.md\n!README*.md\nREADME-secret.md",
    "-a.md README.md -README-secret.md",
  ],
  ["an exception below a folder", "a\n!a/keep", "-a -a/x a/keep a/keep/y"],
  ["an exception before has no effect", "!a\na", "-a"],
  ["an exception with a slash and space", "a\n! /a/b", "-a/c a/b"],
  ["everything but", "*\n!src", "-a -a/b src src/x"],
  ["an exception to everything deep", "**\n!**/*.go", "-a x.go x/y.go"],
  ["parent folder patterns", "a/b", "-a/b -a/b/c/d a a/c"],
  ["unicode", "gr?ße", "-größe gre"],
  ["nothing", "", "a b/c"],
  ["root itself", ".\n/", "a"],
  ["byte-order mark and CRLF", "\uFEFFa\r\nb\r\n", "-a -b c"],
];

for (const [name, rules, paths] of CASES) {
  Deno.test(`.dockerignore: ${name}`, () => {
    const ignore = parseIgnore(rules);
    for (const path of paths.split(" ")) {
      const excluded = path.length > 1 && path.startsWith("-");
      const clean = excluded ? path.slice(1) : path;
      assert.equal(ignore.excludes(clean), excluded, `${clean} with ${JSON.stringify(rules)}`);
      // The cache of folders must not change an answer.
      assert.equal(ignore.excludes(`./${clean}/`), excluded);
    }
  });
}

Deno.test("the context's root is never excluded", () => {
  for (const root of ["", ".", "/", "./"]) {
    assert.equal(parseIgnore("**\n*\n.").excludes(root), false);
  }
});

Deno.test("a malformed pattern names its line", () => {
  for (const pattern of ["a[", "[]", "b\\", "!", "[a-", "!  "]) {
    assert.throws(() => parseIgnore(`ok\n${pattern}`, "x.dockerignore"), (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "context_invalid");
      assert.match(error.message, /on line 2 of x\.dockerignore: it is malformed, or too long$/);
      assert.deepEqual(error.detail, { line: 2, file: "x.dockerignore" });
      return true;
    }, pattern);
  }
});

Deno.test("a walker skips a folder only where nothing in it can come back", () => {
  const skips = (rules: string, path: string) => parseIgnore(rules).canSkipDir(path);
  assert.equal(skips("a", "a"), true);
  assert.equal(skips("a", "b"), false);
  assert.equal(skips("a\n!b/c", "a"), true);
  assert.equal(skips("a\n!a/b/c", "a"), false);
  assert.equal(skips("a\n!a/b/c", "a/b"), false);
  assert.equal(skips("a\n!a/b/c", "a/x"), true);
  assert.equal(skips("a\n!*/b", "a"), false);
  assert.equal(skips("a\n!?/b", "a/c"), true);
  assert.equal(skips("*\n!**/*.go", "a/b/c"), false);
  assert.equal(skips("*\n!src", "node_modules/x"), true);
});

Deno.test("--exclude patterns", () => {
  const ignore = ignorePatterns(["*.txt", "**/tmp", "!keep.txt"]);
  assert.equal(ignore.hasExceptions, true);
  assert.deepEqual(
    ["a.txt", "x/a.txt", "x/tmp/y", "keep.txt"].map((path) => ignore.excludes(path)),
    [
      true,
      false,
      true,
      false,
    ],
  );
  assert.equal(ignorePatterns([]).empty, true);
});

Deno.test("the Dockerfile's own ignore file comes first", () => {
  assert.deepEqual(ignoreFiles("build/app.Dockerfile"), [
    "build/app.Dockerfile.dockerignore",
    ".dockerignore",
  ]);
});

Deno.test("the last line that matches wins, folders count for what is in them", () => {
  const ignore = parseIgnore(
    "# comment\n\n/node_modules\n**/*.log\n*.md\n!README.md\nsecret/**\ndocs\n!docs/keep.txt\n./dist/\n",
  );
  const cases: Record<string, boolean> = {
    "node_modules": true,
    "node_modules/a/b.js": true,
    "src/node_modules/a": false,
    "x.log": true,
    "a/b/x.log": true,
    "a.md": true,
    "README.md": false,
    "sub/a.md": false,
    "secret/a": true,
    "secret": false,
    "docs/other.txt": true,
    "docs/keep.txt": false,
    "dist/x": true,
    "main.ts": false,
  };
  for (const [path, expected] of Object.entries(cases)) {
    assert.equal(ignore.excludes(path), expected, path);
  }
  assert.equal(ignore.canSkipDir("node_modules"), true);
  assert.equal(ignore.canSkipDir("docs"), false, "docs/keep.txt is taken back");
  assert.equal(ignore.canSkipDir("src"), false);
  assert.equal(parseIgnore("\n#x\n").empty, true);
});

Deno.test("everything left out but one folder", () => {
  const ignore = parseIgnore("*\n!src\n!*.json\n");
  assert.equal(ignore.excludes("a.txt"), true);
  assert.equal(ignore.excludes("src/a/b.ts"), false);
  assert.equal(ignore.excludes("deno.json"), false);
});

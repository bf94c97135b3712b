import assert from "node:assert/strict";
import { compilePath, hasWildcard } from "./path_pattern.ts";
import { cpuTime } from "../../../test/fixtures/cpu_time.ts";

/** `filepath.Match`: the whole path, `**` no different from `*`. */
const matchPath = (pattern: string, path: string) =>
  compilePath(pattern, false)?.matches(path) ?? false;

const MATCHES: [pattern: string, path: string, expected: boolean][] = [
  ["abc", "abc", true],
  ["*", "abc", true],
  ["*c", "abc", true],
  ["a*", "a", true],
  ["a*", "ab/c", false],
  ["a*/b", "abc/b", true],
  ["a*/b", "a/c/b", false],
  ["a*b*c*d*e*/f", "axbxcxdxexxx/f", true],
  ["a*b*c*d*e*/f", "axbxcxdxexxx/fff", false],
  ["a*b?c*x", "abxbbxdbxebxczzx", true],
  ["ab[c]", "abc", true],
  ["ab[b-d]", "abc", true],
  ["ab[e-g]", "abc", false],
  ["ab[^c]", "abc", false],
  ["ab[^e-g]", "abc", true],
  ["a\\*b", "a*b", true],
  ["a\\*b", "ab", false],
  ["a?b", "a☺b", true],
  ["a[^a]b", "a☺b", true],
  ["[a-ζ]*", "α", true],
  ["*[a-ζ]", "A", false],
  ["a?b", "a/b", false],
  ["a*b", "a/b", false],
  ["[\\]a]", "]", true],
  ["[\\-x]", "-", true],
  ["[x\\-]", "z", false],
  ["[]a]", "]", false],
  ["[-]", "-", false],
  ["[", "a", false],
  ["a[", "a", false],
  ["*x", "xxx", true],
  ["**", "a/b", false],
  ["a/**/b", "a/x/b", true],
  ["a/**/b", "a/x/y/b", false],
];

for (const [pattern, path, expected] of MATCHES) {
  Deno.test(`matchPath ${pattern} ${path}`, () => assert.equal(matchPath(pattern, path), expected));
}

Deno.test("a pattern without wildcards tells its literal", () => {
  assert.equal(compilePath("a/\\*b", true)?.literal, "a/*b");
  assert.equal(compilePath("a/*b", true)?.literal, undefined);
  assert.equal(compilePath("a[", true), undefined);
});

Deno.test("hasWildcard sees through escapes", () => {
  assert.deepEqual(["a", "a*", "a?", "[a]", "a\\*", "a\\\\*", "\\["].map(hasWildcard), [
    false,
    true,
    true,
    true,
    false,
    true,
    false,
  ]);
});

Deno.test("matching takes no exponential time", () => {
  const start = cpuTime();
  assert.equal(matchPath(`${"*a".repeat(50)}b`, "a".repeat(2000)), false);
  assert.equal(compilePath(`${"**/".repeat(50)}b`, true)?.matches("a/".repeat(1000)), false);
  assert.ok(cpuTime() - start < 3000);
});

import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import type { Heredoc } from "./ast.ts";
import { expand, expandHeredoc, expandWords, scopeOf, variablesOf } from "./expand.ts";
import { cpuTime } from "../../../test/fixtures/cpu_time.ts";

const scope = scopeOf({
  HOME: "/home/me",
  EMPTY: "",
  FILE: "a/b/c.tar.gz",
  TWO: "one  two",
  STAR: "*",
  "größe": "9",
});
const value = (word: string, escape: "\\" | "`" = "\\") => expand(word, scope, { escape }).value;

const VALUES: [word: string, expected: string][] = [
  ["plain", "plain"],
  ["", ""],
  ["$HOME/x", "/home/me/x"],
  ["${HOME}x", "/home/mex"],
  ["$HOMEx", ""],
  ["$größe", "9"],
  ["$", "$"],
  ["a$", "a$"],
  ["$.x", "$.x"],
  ["$1x", "x"],
  ["$$", ""],
  [`\\$HOME`, "$HOME"],
  [`'$HOME'`, "$HOME"],
  [`"$HOME"`, "/home/me"],
  [`"\\$HOME \\a \\" \\\\"`, `$HOME \\a " \\`],
  [`a\\ b\\'`, "a b'"],
  ["end\\", "end"],
  ["${NONE:-d}", "d"],
  ["${EMPTY:-d}", "d"],
  ["${EMPTY-d}", ""],
  ["${NONE-d}", "d"],
  ["${HOME:-d}", "/home/me"],
  ["${HOME:+d}", "d"],
  ["${EMPTY:+d}", ""],
  ["${EMPTY+d}", "d"],
  ["${NONE+d}", ""],
  ["${HOME:?gone}", "/home/me"],
  ["${EMPTY?gone}", ""],
  ["${NONE:-${ALSO:-$HOME}}", "/home/me"],
  [`\${NONE:-"a } b"}`, "a } b"],
  ["${NONE:-a\\}b}", "a}b"],
  [`"\${NONE:-"in"}"`, "in"],
  ["${FILE#*/}", "b/c.tar.gz"],
  ["${FILE##*/}", "c.tar.gz"],
  ["${FILE%.*}", "a/b/c.tar"],
  ["${FILE%%.*}", "a/b/c"],
  ["${FILE#nothing}", "a/b/c.tar.gz"],
  ["${FILE##?/?/}", "c.tar.gz"],
  ["${FILE/\\//_}", "a_b/c.tar.gz"],
  ["${FILE//\\//_}", "a_b_c.tar.gz"],
  ["${FILE//[/x}", "a/b/c.tar.gz"],
  ["${FILE/b*/${NONE:-end}}", "a/end"],
  ["${HOME//e/}", "/hom/m"],
  ["${FILE#$STAR}", "a/b/c.tar.gz"],
  ["${FILE##$STAR}", ""],
  ["${FILE#\\*}", "a/b/c.tar.gz"],
  ["${NONE#x}", ""],
  ["grüße 🎉 $größe", "grüße 🎉 9"],
];

for (const [word, expected] of VALUES) {
  Deno.test(`expand ${JSON.stringify(word)}`, () => assert.equal(value(word), expected));
}

Deno.test("the escape directive replaces the backslash", () => {
  assert.equal(value("C:\\dir\\`$HOME", "`"), "C:\\dir\\$HOME");
  assert.equal(value('"`"a\\b"', "`"), '"a\\b');
});

const ERRORS: [word: string, message: RegExp][] = [
  ["'a", /single quote is not closed/],
  ['"a', /double quote is not closed/],
  ['"a\\', /double quote is not closed/],
  ["${", /} is missing/],
  ["${HOME", /} is missing/],
  ["${}", /variable's name/],
  ["${:-x}", /variable's name/],
  ["${HOME:=x}", /\$\{HOME:= is not a modifier/],
  ["${HOME!x}", /\$\{HOME! is not a modifier/],
  ["${HOME:-x", /} is missing/],
  ["${HOME/x}", /\/ is missing/],
  ["${HOME:#x}", /is not a modifier/],
  ["${NONE?}", /NONE: must be set/],
  ["${EMPTY:?}", /EMPTY: must not be empty/],
  ["${NONE:?say $HOME why}", /NONE: say \/home\/me why/],
  ["${a:-".repeat(100), /nested too deeply/],
];

for (const [raw, message] of ERRORS) {
  Deno.test(`expand refuses ${JSON.stringify(raw.slice(0, 30))}`, () => {
    assert.throws(() => expand({ raw, line: 7 }, scope, { file: "D" }), (error) => {
      assert.ok(error instanceof SvcError);
      assert.equal(error.code, "dockerfile_invalid");
      assert.match(error.message, message);
      assert.match(error.message, /^Cannot expand .* on line 7 of D: /);
      assert.deepEqual(error.detail, { line: 7, file: "D" });
      return true;
    });
  });
}

Deno.test("a replacement cannot blow a value up without bound", () => {
  const big = scopeOf({ A: "x".repeat(2000) });
  assert.throws(() => expand("${A//x/$A}", big), /A: its value is too long/);
});

Deno.test("pattern matching takes linear time", () => {
  const text = scopeOf({ A: "a".repeat(500_000) });
  for (
    const word of [
      "${A//*a*a*a*b/}",
      "${A//a*b/}",
      `\${A##${"*a".repeat(400)}*b}`,
      `\${A%%${"a*".repeat(400)}b}`,
      `\${A//b${"a".repeat(200_000)}/x}`,
    ]
  ) {
    const start = cpuTime();
    assert.equal(expand(word, text).value.length, 500_000, word.slice(0, 20));
    assert.ok(cpuTime() - start < 3000, word.slice(0, 20));
  }
  const slow = `\${A//${"a?".repeat(500)}b/}`;
  assert.throws(() => expand(slow, text), /A: a pattern is too long for the value/);
});

Deno.test("used and unset names, as far as the word was evaluated", () => {
  const { used, unset } = expand("$HOME${A}${B:-$C}${HOME:+$D}${E#x}", scope);
  assert.deepEqual(used, ["HOME", "A", "B", "C", "D", "E"]);
  assert.deepEqual(unset, ["A", "C", "D", "E"]);
  assert.deepEqual(expand("${HOME:-$C}", scope).used, ["HOME"]);
});

Deno.test("variablesOf finds every branch", () => {
  const word = "$A${B:-$C}${D/$E/$F}'$G'${A}";
  assert.deepEqual(variablesOf(word), ["A", "B", "C", "D", "E", "F"]);
});

Deno.test("expandWords splits values and unquoted space only", () => {
  const words = (word: string) => expandWords(word, scope).values;
  assert.deepEqual(words("a$TWO"), ["aone", "two"]);
  assert.deepEqual(words('"$TWO" x'), ["one  two", "x"]);
  assert.deepEqual(words(" a  b\\ c "), ["a", "b c"]);
  assert.deepEqual(words("$EMPTY"), []);
});

Deno.test("a heredoc keeps quotes, loses tabs before expansion, and obeys its quoting", () => {
  const doc: Heredoc = {
    name: "E",
    content: '\t"$HOME" \\$x it\'s\n',
    expand: true,
    stripTabs: true,
    fd: 0,
    line: 2,
  };
  assert.equal(expandHeredoc(doc, scope).value, '"/home/me" $x it\'s\n');
  const raw = expandHeredoc({ ...doc, expand: false }, scope);
  assert.deepEqual(raw, { value: '"$HOME" \\$x it\'s\n', used: [], unset: [] });
});

Deno.test("a scope over a record does not see Object's own names", () => {
  assert.equal(expand("$constructor", scope).value, "");
  assert.equal(expand("$A", scopeOf(new Map([["A", "b"]]))).value, "b");
});

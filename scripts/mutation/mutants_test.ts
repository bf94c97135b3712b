import assert from "node:assert/strict";
import { mutantsOf } from "./mutants.ts";

const changes = (source: string) => mutantsOf(source).map(({ change }) => change);

Deno.test("mutants: operators, conditions, literals, statements; never types", () => {
  assert.deepEqual(changes("const a = b < 3;"), ["b < 3 → b <= 3", "3 → 4"]);
  assert.deepEqual(changes("if (!a) throw b;"), [
    "!a → true",
    "!a → false",
    "!a → a",
    "throw b; → ;",
  ]);
  assert.deepEqual(changes("await put(x);"), ["await put(x); → ;"]);
  assert.deepEqual(changes("function f() { return undefined; }"), []);
  assert.deepEqual(changes("type T = 3 | true; interface I { a: 4 }\nlet x: 5 = y as 6;"), []);
});

Deno.test("mutants: each source differs from the original in that one place", () => {
  const source = "function may(a: string) {\n  return a === 'x' && list.has(a);\n}\n";
  const mutants = mutantsOf(source);
  assert.deepEqual(mutants.map(({ line }) => line), [2, 2, 2]);
  assert.deepEqual(mutants.map(({ source }) => source.split("\n")[1].trim()), [
    "return undefined;",
    "return a !== 'x' && list.has(a);",
    "return a === 'x' || list.has(a);",
  ]);
});

Deno.test("mutants: where a source has the same change twice, the name says the line, and which of two that read alike", () => {
  assert.deepEqual(changes("f(true);\ng(1, true);"), [
    "f(true); → ;",
    "true → false in f(true);",
    "g(1, true); → ;",
    "1 → 2",
    "true → false in g(1, true);",
  ]);
  assert.deepEqual(changes("{\n  f(!a);\n  f(!a);\n}"), [
    "f(!a); → ; in f(!a);",
    "!a → a in f(!a);",
    "f(!a); → ; in f(!a); (2)",
    "!a → a in f(!a); (2)",
  ]);
});

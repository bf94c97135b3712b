import assert from "node:assert/strict";
import { globMatches } from "./glob.ts";

Deno.test("patterns: a star stands for any characters, everything else for itself, in order", () => {
  const rows: [pattern: string, matching: string[], others: string[]][] = [
    ["ci", ["ci"], ["", "c", "cii", "Ci"]],
    ["*", ["", "x", "a*b"], []],
    ["a*", ["a", "ab"], ["", "ba"]],
    ["*a", ["a", "ba"], ["", "ab"]],
    ["a*a", ["aa", "aba"], ["a", "ab"]],
    ["a*b*c", ["abc", "axbxc", "abbc"], ["ac", "acb", "ab", "xabc", "abcx"]],
    ["*b*", ["b", "abc"], ["", "ac"]],
    // What one part has taken, no other can.
    ["a*xx*xc", ["axxxc", "axx-xc"], ["axxc"]],
    ["*ab*ab*", ["abab"], ["ab", "aab"]],
    ["repo:*:ref:*", ["repo:o/r:ref:main", "repo::ref:"], ["repo:o/r", "ref:main:repo:x"]],
  ];
  for (const [pattern, matching, others] of rows) {
    for (const text of matching) assert(globMatches(pattern, text), `${pattern} of ${text}`);
    for (const text of others) assert(!globMatches(pattern, text), `${pattern} of ${text}`);
  }
});

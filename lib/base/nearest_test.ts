import { equal } from "node:assert/strict";
import { nearest, suggestion } from "./nearest.ts";

Deno.test("nearest: a slip is found, nonsense is not", () => {
  equal(nearest("dockerhots", ["bare", "dockerhost"]), "dockerhost");
  equal(nearest("BARE", ["bare", "incus"]), "bare");
  equal(nearest("zzzzzz", ["bare", "dockerhost"]), undefined);
  equal(suggestion("adr", ["addr", "storage"], "--"), "; did you mean --addr?");
  equal(suggestion("biuld", ["build", "serve"]), "; did you mean build?");
  equal(suggestion("qqqqq", ["addr"]), "");
});

Deno.test("a name that has nothing in common is none to offer", () => {
  for (const [word, candidates] of [["A", ["B"]], ["no", ["np"]], ["X", ["XY"]]] as const) {
    equal(nearest(word, candidates), undefined);
  }
  equal(nearest("TGA", ["TAG"]), "TAG");
});

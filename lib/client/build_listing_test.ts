import assert from "node:assert/strict";
import type { ListedEntry, ListingPart } from "../api/build_session.ts";
import { sha256 } from "../base/hash.ts";
import { changedLines } from "./build_listing.ts";

const entries = (names: string): ListedEntry[] =>
  [...names].map((name) => [name, "f", 0o644, 1, 2, 3, "s"]);

async function* one<T>(item: T): AsyncGenerator<T> {
  yield item;
}

const linesOf = (names: string) =>
  entries(names).map((entry) => JSON.stringify(entry) + "\n").join("");

async function changed(names: string, parts: readonly ListingPart[]): Promise<string> {
  let text = "";
  for await (const some of changedLines(one(entries(names)), parts)) text += some.text;
  return text.replaceAll(/\["(.)".*\]\n/g, "$1").replaceAll("\n", "");
}

Deno.test("changes: parts that are the same are named, as many as stand in a row", async () => {
  const parts: ListingPart[] = [];
  for (const names of ["ab", "cd", "ef"]) parts.push([names[0], await sha256(linesOf(names))]);
  const cases: Record<string, string> = {
    abcdef: '{"same":[0,3]}',
    abcDef: '{"same":[0,1]}cD{"same":[2,1]}',
    Zabcdef: 'Z{"same":[0,3]}',
    abcdefZ: '{"same":[0,2]}efZ',
    cdef: '{"same":[1,2]}',
    efab: '{"same":[2,1]}{"same":[0,1]}',
    acdef: 'a{"same":[1,2]}',
    abdef: 'abd{"same":[2,1]}',
    xyz: "xyz",
    "": "",
  };
  for (const [names, said] of Object.entries(cases)) {
    assert.equal(await changed(names, parts), said, names);
  }
  assert.equal(await changed("ab", []), "ab");
  for (const wrong of [undefined, "x", [7], [["a"]], [["a", 7]]]) {
    await assert.rejects(changed("ab", wrong as never), { code: "argument_invalid" });
  }
});

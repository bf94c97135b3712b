/** The quick reader gives what the parser of all YAML gives, or leaves the text to it. */
import assert from "node:assert/strict";
import { caseNames, readCase } from "../../../test/golden/compose/case.ts";
import { readQuick } from "./quick.ts";
import { readAny, readYaml } from "./read.ts";
import { isList, isMapping, placeIn, type Value } from "./tree.ts";

/** A tree with the line of each of its values, as text. */
function shown(value: Value): unknown {
  const at = (key: string | number) => placeIn(value as never, key)?.line;
  if (isMapping(value)) return [...value].map(([key, one]) => [key, at(key), shown(one)]);
  if (isList(value)) return value.map((one, index) => [at(index), shown(one)]);
  return typeof value === "bigint" ? `${value}n` : value;
}

const outcome = async (read: typeof readAny, text: string) => {
  try {
    return (await read(text, "f")).map(({ root, place }) => [shown(root), place.line]);
  } catch (error) {
    return (error as Error).message;
  }
};

/** Whether it was read quickly. Throws where the two do not agree. */
async function agree(text: string): Promise<boolean> {
  if (!readQuick(text)) return false;
  assert.deepEqual(
    await outcome(readYaml, text),
    await outcome(readAny, text),
    JSON.stringify(text),
  );
  return true;
}

async function corpus(): Promise<string[]> {
  const cases = await Promise.all((await caseNames()).map(readCase));
  return cases.flatMap(({ files }) =>
    Object.entries(files).filter(([path]) => /\.ya?ml$/.test(path)).map(([, text]) => text)
  );
}

Deno.test("quick: every recorded project is read alike, and most of them quickly", async () => {
  const texts = await corpus();
  let quick = 0;
  for (const text of texts) if (await agree(text)) quick++;
  assert.ok(quick > texts.length * 0.7, `${quick} of ${texts.length}`);
});

/** The same numbers each time. */
function numbers(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * below);
  };
}

Deno.test("quick: texts with random changes are read alike, or left", async () => {
  const texts = await corpus();
  const random = numbers(7);
  const pieces = [
    ...[
      " ",
      "  ",
      "\n",
      "- ",
      ": ",
      ":",
      "#",
      " #",
      "{",
      "}",
      "[",
      "]",
      ",",
      "&a ",
      "*a",
      "!t ",
      "'",
      '"',
    ],
    ...["|", ">", "? ", "-", "\\", "<<: *a", "~", "---\n", "\t", "%", "@", "a b", "null", "|-\n"],
  ];
  let quick = 0;
  for (let turn = 0; turn < 3000; turn++) {
    const text = texts[random(texts.length)].slice(0, 600);
    const at = random(text.length);
    const changed = text.slice(0, at) + pieces[random(pieces.length)] +
      text.slice(at + random(3));
    if (await agree(changed)) quick++;
  }
  assert.ok(quick > 300, String(quick));
});

Deno.test("quick: what it reads, and what it leaves", async () => {
  for (
    const text of [
      "a: 1 # c\nb:\n- x\n- y: 1\n  z: [a, {b: c}]\nc:\n  d: |\n    x\n\n     y\n\n  e: 'it''s'\n",
      'a: &x {b: "c\\n", d: }\n'.replace(", d: ", ""),
      "x-a: &a\n  b: 1\nc:\n  <<: *a\n  d: [*a,\n    'x', y z ]\n",
      "a:\n  - http://x:80/y#z\n  - a b: c\n",
    ]
  ) assert.ok(await agree(text), text);
  for (
    const text of [
      "a: b: c\n",
      "a: >\n  x\n",
      "a: b\n  c\n",
      "a:\n   b: 1\n  c: 2\n",
      "a: !reset null\n",
      "? a\n",
      "- a\n",
      "a: {b}\n",
      "a: [x: y]\n",
      "a: 'x\n  y'\n",
      "a: b\n---\nc: d\n",
      "a:\t1\n",
      "",
    ]
  ) assert.ok(!readQuick(text), text);
});

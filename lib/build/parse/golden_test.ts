/**
 * Golden cases: test/golden/dockerfile/NAME.Dockerfile and the tree or error it comes to in NAME.json.
 * `UPDATE_GOLDEN=1 deno test -A lib/build/parse/golden_test.ts` writes them anew; read the difference.
 */
import assert from "node:assert/strict";
import { SvcError } from "../../base/errors.ts";
import { parseDockerfile } from "./parse.ts";

const FOLDER = new URL("../../../test/golden/dockerfile/", import.meta.url);
const UPDATE = Deno.env.get("UPDATE_GOLDEN") === "1";
const SUFFIX = ".Dockerfile";

function outcome(text: string): unknown {
  try {
    return parseDockerfile(text);
  } catch (error) {
    if (!(error instanceof SvcError)) throw error;
    return { error: { code: error.code, message: error.message, detail: error.detail } };
  }
}

/** Names of the files with an ending, without it. */
function namesWith(ending: string): string[] {
  const files = [...Deno.readDirSync(FOLDER)].map((entry) => entry.name);
  return files.filter((name) => name.endsWith(ending))
    .map((name) => name.slice(0, -ending.length)).sort();
}

const names = namesWith(SUFFIX);

for (const name of names) {
  Deno.test(`golden Dockerfile ${name}`, () => {
    const text = Deno.readTextFileSync(new URL(`${name}${SUFFIX}`, FOLDER));
    const expected = new URL(`${name}.json`, FOLDER);
    const actual = `${JSON.stringify(outcome(text), null, 2)}\n`;
    if (UPDATE) Deno.writeTextFileSync(expected, actual);
    assert.deepEqual(JSON.parse(actual), JSON.parse(Deno.readTextFileSync(expected)));
  });
}

Deno.test("every golden tree has its Dockerfile", () => {
  assert.ok(names.length >= 40);
  assert.deepEqual(namesWith(".json"), names);
});

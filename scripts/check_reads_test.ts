import assert from "node:assert/strict";
import { checkReads, foreignReads } from "./check_reads.ts";

Deno.test("direct reads are found, but for the host's own paths and what is said to be our own", () => {
  const found = [
    "await Deno.readTextFile(path)",
    "await Deno.readTextFile(`/proc/${pid}/root/etc/passwd`)",
    "const fd = open(host, O.RDONLY);",
    "using file = await Deno.open(host);",
    "fs.readFileSync(path);",
    "const text = await Deno.readTextFile(\n  `${root}/etc/group`,\n);",
    "// It is our own.\nawait Deno.readFile(path)",
  ];
  for (const text of found) assert.equal(foreignReads(text).length, 1, text);
  const fine = [
    "await Deno.readTextFile(`/proc/${pid}/stat`)",
    'await Deno.readTextFile(\n  "/etc/hosts",\n);',
    "// Our own: the step's log.\nawait Deno.readTextFile(path)",
    "using file = await Deno.open(path, { write: true, createNew: true });",
    "const fd = open(place.root, O.RDONLY | O.DIRECTORY);",
    "// Deno.readFile(path) would wait",
    "readRootedText(root, path, MAX)",
  ];
  for (const text of fine) assert.deepEqual(foreignReads(text), [], text);
});

Deno.test("no module that deals with trees of others reads them past the one way", async () => {
  assert.deepEqual(await checkReads(`${import.meta.dirname}/..`), []);
});

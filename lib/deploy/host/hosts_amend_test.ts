import assert from "node:assert/strict";
import fc from "fast-check";
import { amendedHosts } from "./hosts_amend.ts";

/** Applies the pieces; `seen` is called with the file after each of them. */
function after(current: string, wanted: string, seen = (_text: string) => {}): string | undefined {
  const pieces = amendedHosts(current, wanted);
  if (!pieces) return undefined;
  let text = current;
  for (const { at, text: piece } of pieces) {
    text = text.slice(0, at) + piece + text.slice(at + piece.length);
    seen(text);
  }
  return text;
}

const lines = (text: string) => text.split("\n").filter((line) => line && !line.startsWith("#"));

Deno.test("hosts: what comes is appended, what goes becomes a comment, what stays is not written", () => {
  assert.deepEqual(amendedHosts("a\nb\n", "b\nc\n"), [{ at: 4, text: "c\n" }, {
    at: 0,
    text: "#",
  }]);
  assert.deepEqual(amendedHosts("a\n#b\n\n", "a\n"), [{ at: 2, text: "\n\n\n" }]);
  assert.deepEqual(amendedHosts("a\n\n\n\n", "a\n"), []);
  assert.deepEqual(amendedHosts("a\na\n", "a\n"), [{ at: 2, text: "#" }]);
  assert.equal(amendedHosts("half a line", "a\n"), undefined);
});

Deno.test("hosts: a file of many lines that are gone is written anew", () => {
  assert.equal(amendedHosts("10.4.0.2\tname\n".repeat(400), "a\n"), undefined);
});

Deno.test("hosts: a reader who began at any moment sees whole lines, and each that stays", () => {
  const names = fc.array(fc.constantFrom("1 a", "22 bb", "333 ccc", "4 d e"), { maxLength: 6 });
  const file = names.map((all) => all.map((line) => `${line}\n`).join("") || "\n");
  fc.assert(fc.property(file, file, (current, wanted) => {
    const known = new Set([...lines(current), ...lines(wanted)]);
    const stays = lines(current).filter((line) => lines(wanted).includes(line));
    const end = after(current, wanted, (text) => {
      // It has read a part of the file as it was, and reads the rest as it is now.
      for (let read = 0; read <= current.length; read++) {
        const mixed = lines(current.slice(0, read) + text.slice(read));
        for (const line of mixed) assert.ok(known.has(line), line);
        for (const line of stays) assert.ok(mixed.includes(line), line);
      }
    });
    assert.deepEqual(lines(end!).sort(), lines(wanted).sort());
  }));
});

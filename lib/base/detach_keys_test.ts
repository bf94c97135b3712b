import assert from "node:assert/strict";
import { parseDetachKeys, withoutKeys } from "./detach_keys.ts";

Deno.test("detach keys: as docker writes them", () => {
  const codes = (text: string) => [...parseDetachKeys(text)];
  assert.deepEqual(codes("ctrl-p,ctrl-q"), [16, 17]);
  assert.deepEqual(codes("a,CTRL-\\,ctrl-@,~"), [97, 28, 0, 126]);
  assert.deepEqual(codes(""), []);
  for (const text of ["ctrl-", "ab", "ctrl-p,", "ctrl-1", "ctrl-pp", "ü"]) {
    assert.throws(() => parseDetachKeys(text), { code: "usage" }, text);
  }
});

Deno.test("detach keys: everything but them is passed on, however it is cut", async () => {
  const passed = async (text: string, step: number, keys = "p,q") => {
    let detached = 0;
    const bytes = new TextEncoder().encode(text);
    const parts = function* () {
      for (let at = 0; at < bytes.length; at += step) yield bytes.subarray(at, at + step);
    };
    const stream = ReadableStream.from(parts())
      .pipeThrough(withoutKeys(parseDetachKeys(keys), () => void detached++));
    return [await new Response(stream as BodyInit).text(), detached];
  };
  for (const step of [1, 2, 3, 100]) {
    assert.deepEqual(await passed("apb ppx p", step), ["apb ppx p", 0]);
    assert.deepEqual(await passed("a ppq no more pq", step), ["a p", 1]);
    assert.deepEqual(await passed("pp", step, "p,p,p"), ["pp", 0]);
  }
});

/** Rules of a context that would keep the event loop busy with every path. */
import assert from "node:assert/strict";
import { cpuTime, longestTurn } from "../../../test/fixtures/cpu_time.ts";
import { writeTar } from "../../oci/tar_write.ts";
import { ignorePatterns, parseIgnore } from "../parse/ignore.ts";
import { receiveContext } from "./receive.ts";

/** The costliest that are taken: each is alive to the end of a name of nothing but "a". */
const RULES = Array.from({ length: 16 }, () => `${"*a".repeat(480)}b`).join("\n");

Deno.test("rules that cost much leave the event loop its turns", async () => {
  const folder = await Deno.makeTempDir({ prefix: "svc-rules-" });
  try {
    const encoder = new TextEncoder();
    const file = (path: string, text: string) => {
      const body = encoder.encode(text);
      return { path, type: "file" as const, mode: 0o644, mtime: 1, size: body.length, body };
    };
    const files = Array.from({ length: 150 }, (_, i) => file(`${"a".repeat(245)}${i}`, ""));
    const archive = await new Response(
      writeTar([
        file("Dockerfile", "FROM scratch"),
        file(".dockerignore", RULES),
        ...files,
      ]) as ReadableStream<Uint8Array<ArrayBuffer>>,
    ).bytes();
    const longest = await longestTurn(async () => {
      await using context = await receiveContext(new Blob([archive]).stream(), {
        directory: `${folder}/c`,
        dockerfile: "Dockerfile",
      });
      assert.equal([...Deno.readDirSync(context.tree.root)].length, 152);
    });
    assert.ok(longest < 400, `the event loop had no turn for ${longest} ms`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("rules that cost more are refused", () => {
  const long = "*a".repeat(600);
  assert.throws(() => parseIgnore(`x\n${long}`), {
    code: "context_invalid",
    message: /on line 2 of \.dockerignore: it is malformed, or too long$/,
  });
  assert.throws(() => ignorePatterns([long]), { code: "context_invalid" });
  assert.throws(() => parseIgnore(`${RULES}\n${RULES}`), {
    code: "context_invalid",
    message: /Cannot use \.dockerignore: there are too many, or those with wildcards are too long/,
  });
  for (const text of ["a\n".repeat(400_000), "a".repeat(1_000_000), "a\n".repeat(1_000_000)]) {
    const start = cpuTime();
    assert.throws(() => parseIgnore(text), { code: "context_invalid" });
    assert.ok(cpuTime() - start < 1000);
  }
  const folders = Array.from({ length: 4000 }, (_, i) => `some/folder/of/many/${i}`);
  assert.ok(parseIgnore(folders.join("\n")).excludes("some/folder/of/many/7/file"));
});

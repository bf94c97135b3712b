import assert from "node:assert/strict";
import { join } from "node:path";
import { outdated, parseList, unlisted } from "./flaky.ts";

const ROOT = join(import.meta.dirname!, "..");
const DAY = 86_400_000;

Deno.test("flaky tests: the list's lines, and what is wrong with others", () => {
  const { entries, wrong } = parseList(
    "# a comment\n\nlib/x_test.ts | x: does y | waits for a port | 2026-01-31\nlib/x_test.ts | y\n" +
      "a | b | c | soon\na | b | c | 2026-02-01 | more\na |  | c | 2026-02-01\n",
  );
  assert.deepEqual(entries, [{
    path: "lib/x_test.ts",
    name: "x: does y",
    reason: "waits for a port",
    since: Date.UTC(2026, 0, 31),
  }]);
  assert.equal(wrong.length, 4);
});

Deno.test("flaky tests: an entry holds for 60 days", () => {
  const entry = { path: "a", name: "b", reason: "c", since: 0 };
  assert.equal(outdated(entry, 60 * DAY), undefined);
  assert.match(outdated(entry, 61 * DAY)!, /flaky for 61 days, at most 60/);
  assert.match(outdated({ ...entry, since: 3 * DAY }, 0)!, /date is to come/);
});

/** Runs `body` as the tests of a file, which fail, and gives what deno says of which. */
async function failuresOf(body: string): Promise<{ file: string; lines: string[] }> {
  const folder = await Deno.makeTempDir();
  const file = `${folder}/made_test.ts`;
  try {
    await Deno.writeTextFile(file, body);
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "-q", "--no-check", "--no-config", "made_test.ts"],
      cwd: folder,
      env: { NO_COLOR: "1" },
    }).output();
    const lines = new TextDecoder().decode(stdout).split("\n");
    return { file, lines: [...new Set(lines.filter((line) => / => \.\//.test(line)))] };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("flaky tests: what a run says of its failures is found in the list, steps with their test", async () => {
  const { lines } = await failuresOf(`
    Deno.test("plain: fails", () => { throw new Error("no"); });
    Deno.test("steps: fail", (t) => t.step("one => two", () => { throw new Error("no"); }));
  `);
  assert.ok(lines.length >= 2, lines.join("\n"));
  const entry = (name: string) => ({ path: "made_test.ts", name, reason: "r", since: 0 });
  assert.deepEqual(unlisted(lines, [entry("plain: fails"), entry("steps: fail")]), []);
  assert.deepEqual(unlisted(["", ...lines], []).length, lines.length);
  const [left] = unlisted(lines, [entry("steps: fail")]);
  assert.match(left, /^plain: fails => /);
  const elsewhere = [entry("plain: fails"), entry("steps: fail")]
    .map((one) => ({ ...one, path: "other_test.ts" }));
  assert.equal(unlisted(lines, elsewhere).length, lines.length);
});

Deno.test("flaky tests: scripts/test asks, and fails for one that is not listed", async () => {
  const ask = async (input: string) => {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", join(ROOT, "scripts/flaky.ts")],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input));
    await writer.close();
    const { code, stdout } = await child.output();
    return [code, new TextDecoder().decode(stdout)];
  };
  assert.deepEqual(await ask(""), [0, ""]);
  const [code, said] = await ask("some test => ./lib/some_test.ts:1:2\n");
  assert.equal(code, 1);
  assert.equal(said, "not in test/flaky.txt: some test => ./lib/some_test.ts:1:2\n");
});

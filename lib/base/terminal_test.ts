import assert from "node:assert/strict";
import { harmless, interruption } from "./terminal.ts";

const MODULE = new URL("./terminal.ts", import.meta.url).href;

/** Runs a program that has `io` and `BrokenPipe`; its standard error is what it reports. */
async function program(body: string, readStdout: boolean): Promise<{ out: string; err: string }> {
  const source = `import { BrokenPipe, systemIo } from ${JSON.stringify(MODULE)};
    const io = systemIo({ signal: new AbortController().signal });
    ${body}`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", source],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (!readStdout) await child.stdout.cancel();
  const [out, err] = await Promise.all([
    readStdout ? new Response(child.stdout).text() : "",
    new Response(child.stderr).text(),
  ]);
  await child.status;
  return { out, err };
}

Deno.test("writes keep their order and are whole", async () => {
  const { out } = await program(
    `const big = "x".repeat(1 << 20);
     await Promise.all([io.stdout.write("a"), io.stdout.write(big), io.stdout.write(new Uint8Array([98]))]);`,
    true,
  );
  assert.equal(out.length, (1 << 20) + 2);
  assert.deepEqual([out[0], out.at(-1)], ["a", "b"]);
});

Deno.test("a reader that went away is told once, and no later write hangs", async () => {
  const { err } = await program(
    `let told = 0;
     for (let i = 0; i < 200; i++) {
       await io.stdout.write("x".repeat(4096)).catch((e) => told += e instanceof BrokenPipe ? 1 : 100);
     }
     await io.stderr.write("told " + told + " " + io.stdout.isTerminal + " " + io.stdout.size());`,
    false,
  );
  assert.equal(err, "told 1 false undefined");
});

Deno.test("an interruption carries the exit code a shell would give", () => {
  assert.deepEqual(
    [
      interruption("SIGINT").exitCode,
      interruption("SIGTERM").exitCode,
      interruption("SIGINT").name,
    ],
    [130, 143, "AbortError"],
  );
});

Deno.test("text obeys nobody; JSON stays the same value", () => {
  const escapes = "a\x1b[31mb\x1b]0;title\x07\x9b2J\rc\x7f";
  const shown = harmless(escapes);
  // deno-lint-ignore no-control-regex -- what must not be there
  assert(!/[\x00-\x1f\x7f-\x9f]/.test(shown));
  assert.equal(shown, "a\\u001b[31mb\\u001b]0;title\\u0007\\u009b2J\\u000dc\\u007f");
  assert.equal(
    harmless("one\ttwo\r\nthree — ünï \u{1f600}\n"),
    "one\ttwo\r\nthree — ünï \u{1f600}\n",
  );
  const value = { message: `${escapes}\\`, [escapes]: 1 };
  assert.deepEqual(JSON.parse(harmless(JSON.stringify(value))), value);
});

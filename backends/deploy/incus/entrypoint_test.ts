import assert from "node:assert/strict";
import { lostVariables, needsShell, type Process, processOf } from "./entrypoint.ts";

const of = (args: string[], env: string[] = []): Process => ({ args, env });

Deno.test("a command's words stay apart, with white space and quotes of one kind", () => {
  const process = of(["/bin/app", "--name=a b", "it's", "100%"], ["A=1", "B==", "A=2"]);
  assert.equal(needsShell(process), false);
  assert.deepEqual(processOf(process), {
    "oci.entrypoint": `/bin/app '--name=a b' 'it'"'"'s' 100%`,
    "environment.A": "2",
    "environment.B": "=",
  });
});

/** Runs what the keys say, as LXC does: words, in an environment. */
async function run(keys: Record<string, string>): Promise<string> {
  for (const value of Object.values(keys)) assert.doesNotMatch(value, /[\r\n]/);
  const env = Object.entries(keys).filter(([key]) => key.startsWith("environment."))
    .map(([key, value]) => [key.slice("environment.".length), value]);
  const { stdout } = await new Deno.Command("sh", {
    // LXC's quotes are a shell's.
    args: ["-c", `exec ${keys["oci.entrypoint"]}`],
    env: Object.fromEntries(env),
  }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test("what no line holds comes in a variable, of which nothing is left", async () => {
  const words = ["a\nlxc.hook.start = x", `'"`, "\r", "\\n\\\\", "$(id) `id` $HOME", "", "end\n"];
  assert.equal(
    await run(processOf(of(["printf", "<%s>", ...words]))),
    words.map((word) => `<${word}>`).join(""),
  );
  const value = `it's\n"two"\\n\n`;
  const script = `printf %s "$LINES_"; printf %s "\${SVC_COMMAND-}$PLAIN"`;
  const env = [`LINES_=${value}`, "PLAIN=one"];
  assert.equal(needsShell(of(["sh", "-c", script], env)), true);
  assert.equal(await run(processOf(of(["sh", "-c", script], env))), `${value}one`);
});

Deno.test("variables of several lines that no shell can set are told", () => {
  const env = ["a.b=1\n2", "<<=x", "A=1\n2"];
  assert.deepEqual(lostVariables(env), ["a.b"]);
  assert.ok(!JSON.stringify(processOf(of(["app"], env))).includes("a.b"));
});

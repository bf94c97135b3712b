/**
 * `deno task ok`: what a change must pass before it is committed. Two chains at once: the checks that read
 * the sources, then the tests that mostly wait for other programs; beside them all the other tests.
 */
const WAITING = [
  "test/contract/deploy_backend_test.ts",
  "backends/build/engine_test.ts",
  "backends/build/runc_test.ts",
];

const tests = (...args: string[]) => ["test", "-A", "-q", "--no-check", ...args];

const CHAINS: string[][][] = [
  [
    ["fmt", "--check", "-q"],
    ["lint", "-q"],
    ["check", "-q", "."],
    ["run", "-A", "scripts/check_layers.ts"],
    ["run", "-A", "scripts/docs.ts", "--check"],
    tests(...WAITING),
  ],
  [tests(`--ignore=${WAITING.join(",")}`, "lib", "backends", "test/contract", "scripts")],
];

async function chain(steps: string[][]): Promise<boolean> {
  let good = true;
  for (const args of steps) {
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
    const words = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    const summary = /^.*\d+ passed.*$/m.exec(words)?.[0] ?? "";
    console.log(`${success ? "ok    " : "FAILED"} deno ${args.join(" ")} ${summary}`);
    if (!success) console.log(words);
    good &&= success;
  }
  return good;
}

if (import.meta.main) {
  const results = await Promise.all(CHAINS.map(chain));
  if (results.includes(false)) Deno.exit(1);
}

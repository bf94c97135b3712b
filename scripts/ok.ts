/**
 * `deno task ok`: what a change must pass before it is committed. Three chains at once: the checks that
 * read the sources, then the tests that mostly wait for other programs; beside them those of lib, of which the
 * third chain has the clients' with the rest.
 */
const WAITING = ["test/contract/deploy_backend_test.ts", "backends/build/"];

async function testsBelow(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) found.push(...await testsBelow(path));
    else if (/_test\.tsx?$/.test(name)) found.push(path);
  }
  return found.sort();
}

const isWaiting = (path: string) => WAITING.some((begin) => path.startsWith(begin));

/** So that the last two chains take about the same time. */
const CLIENTS = ["lib/client/", "lib/commands/", "lib/ingress/", "lib/tunnel/", "lib/wire/"];

const isLib = (path: string) =>
  path.startsWith("lib/") && !CLIENTS.some((begin) => path.startsWith(begin));

const tests = (files: string[]) => ["test", "-A", "-q", "--no-check", ...files];

async function chains(): Promise<string[][][]> {
  const folders = ["lib", "backends", "test/contract", "scripts"];
  const files = (await Promise.all(folders.map(testsBelow))).flat();
  return [
    [
      ["fmt", "--check", "-q"],
      ["lint", "-q"],
      ["check", "-q", "."],
      ["run", "-A", "scripts/check_layers.ts"],
      ["run", "-A", "scripts/check_reads.ts"],
      ["run", "-A", "scripts/docs.ts", "--check"],
      tests(files.filter(isWaiting)),
    ],
    [tests(files.filter(isLib))],
    [tests(files.filter((path) => !isWaiting(path) && !isLib(path)))],
  ];
}

async function chain(steps: string[][]): Promise<boolean> {
  let good = true;
  for (const args of steps) {
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
    const words = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    const summary = /^.*\d+ passed.*$/m.exec(words)?.[0] ?? "";
    const shown = args[0] === "test" ? `test: ${args.length - 4} files` : args.join(" ");
    console.log(`${success ? "ok    " : "FAILED"} deno ${shown} ${summary}`);
    if (!success) console.log(words);
    good &&= success;
  }
  return good;
}

if (import.meta.main) {
  const results = await Promise.all((await chains()).map(chain));
  if (results.includes(false)) Deno.exit(1);
}

/**
 * Mutation runs, by hand: `deno run -A scripts/mutate.ts [TARGET…] [--jobs N]`. Puts one small defect at a
 * time into a copy of the tree and runs the target's tests: a mutant that they let pass is a survivor. Those
 * that are known, as they change nothing that can be seen, stand in test/mutation/survivors.txt with a reason.
 *
 * Exit code 1 lists the other survivors, and the lines of that file that are no survivors any more.
 */
import { join } from "node:path";
import { ROOT } from "./build/bundle.ts";
import { type Mutant, mutantsOf } from "./mutation/mutants.ts";
import { TARGETS } from "./mutation/targets.ts";

const SURVIVORS = join(ROOT, "test/mutation/survivors.txt");

/** Several times what the slowest of the tests take: a mutant that loops is found out. */
const TIMEOUT_MS = 90_000;

interface Case extends Mutant {
  path: string;
  tests: readonly string[];
}

/** The mutant's name in test/mutation/survivors.txt. */
const nameOf = ({ path, change }: Case) => `${path}: ${change}`;

async function output(command: string, args: string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args, cwd }).output();
  if (!success) throw new Error(`${command} ${args[0]}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Copies the files that git tracks, so that a run changes nothing in the original tree. */
async function copyTree(): Promise<string> {
  const copy = await Deno.makeTempDir({ prefix: "svc-mutation-" });
  await output("sh", ["-c", `git ls-files -z | xargs -0 cp --parents -t "${copy}"`], ROOT);
  return copy;
}

async function passes(tree: string, tests: readonly string[]): Promise<boolean> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "-q", "--no-check", "--fail-fast", ...tests],
    cwd: tree,
    stdout: "null",
    stderr: "null",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).output();
  return success;
}

async function survives(tree: string, { path, source, tests }: Case): Promise<boolean> {
  const file = join(tree, path);
  const original = await Deno.readTextFile(file);
  try {
    await Deno.writeTextFile(file, source);
    return await passes(tree, tests);
  } finally {
    await Deno.writeTextFile(file, original);
  }
}

async function casesOf(name: string): Promise<Case[]> {
  const target = TARGETS[name];
  if (!target) throw new Error(`Unknown target ${name}: use ${Object.keys(TARGETS).join(", ")}`);
  const sources = await Promise.all(target.sources.map(async (path) => {
    const mutants = mutantsOf(await Deno.readTextFile(join(ROOT, path)));
    return mutants.map((mutant) => ({ ...mutant, path, tests: target.tests }));
  }));
  return sources.flat();
}

/** Resolves to the surviving cases, in order. */
async function run(cases: readonly Case[], jobs: number): Promise<Case[]> {
  const found = new Set<Case>();
  const waiting = [...cases];
  const worker = async () => {
    const tree = await copyTree();
    try {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        if (!await survives(tree, next)) continue;
        found.add(next);
        console.log(`survived  ${nameOf(next)}  (line ${next.line})`);
      }
    } finally {
      await Deno.remove(tree, { recursive: true });
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return cases.filter((one) => found.has(one));
}

/** "path: change # reason" a line. */
async function knownSurvivors(): Promise<string[]> {
  const lines = (await Deno.readTextFile(SURVIVORS)).split("\n");
  return lines.filter((line) => line && !line.startsWith("#")).map((line) => {
    const [name, reason] = line.split(" # ");
    if (!reason) throw new Error(`${SURVIVORS}: a line has no reason: ${line}`);
    return name;
  });
}

async function main(args: string[]): Promise<number> {
  const jobs = Number(args.find((arg) => arg.startsWith("--jobs="))?.slice(7) ?? 1);
  const named = args.filter((arg) => !arg.startsWith("--"));
  const cases = (await Promise.all((named.length ? named : Object.keys(TARGETS)).map(casesOf)))
    .flat();
  const survivors = await run(cases, jobs);
  const known = await knownSurvivors();
  const names = new Set(survivors.map(nameOf));
  const paths = new Set(cases.map(({ path }) => path));
  const fresh = survivors.filter((one) => !known.includes(nameOf(one)));
  const gone = known.filter((name) => paths.has(name.split(": ")[0]) && !names.has(name));
  for (const name of gone) console.log(`killed by now, to be taken out of the list: ${name}`);
  console.log(
    `${cases.length} mutants, ${cases.length - survivors.length} killed, ` +
      `${survivors.length - fresh.length} known survivors, ${fresh.length} to kill`,
  );
  return fresh.length + gone.length ? 1 : 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));

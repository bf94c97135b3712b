/**
 * Mutation runs, by hand: `deno run -A scripts/mutate.ts [TARGET…] [--jobs=N] [--only=PATTERN]`. Puts one
 * small defect at a time into a copy of the tree and runs the target's tests: a mutant that they let pass is a
 * survivor. Those that are known, as they change nothing that can be seen, stand in test/mutation/survivors.txt
 * with a reason. PATTERN, a regular expression, chooses among the mutants by their names: "path: change".
 *
 * Exit code 1 lists the other survivors, and the lines of that file that are no survivors any more.
 */
import { join } from "node:path";
import { ROOT } from "./build/bundle.ts";
import { type Mutant, mutantsOf } from "./mutation/mutants.ts";
import { TARGETS } from "./mutation/targets.ts";

const SURVIVORS = join(ROOT, "test/mutation/survivors.txt");

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

/** The test files among the paths, those in folders too. */
async function testFiles(paths: readonly string[]): Promise<string[]> {
  const files = (await output("git", ["ls-files", ...paths], ROOT)).split("\n");
  return files.filter((file) => file.endsWith("_test.ts"));
}

async function passes(tree: string, file: string, limitMs: number): Promise<boolean> {
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "-q", "--no-check", "--fail-fast", file],
    cwd: tree,
    stdout: "null",
    stderr: "null",
    signal: AbortSignal.timeout(limitMs),
  }).output();
  return success;
}

/** Does the work on each item in a tree of its own, `jobs` of them at a time. */
async function inTrees<T>(
  items: readonly T[],
  jobs: number,
  work: (tree: string, item: T) => Promise<void>,
): Promise<void> {
  const waiting = [...items];
  const worker = async () => {
    const tree = await copyTree();
    try {
      for (let next = waiting.shift(); next; next = waiting.shift()) await work(tree, next);
    } finally {
      await Deno.remove(tree, { recursive: true });
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
}

/** The milliseconds that each test file takes. */
async function timesOf(
  files: readonly string[],
  jobs: number,
): Promise<ReadonlyMap<string, number>> {
  const times = new Map<string, number>();
  await inTrees(files, jobs, async (tree, file) => {
    const started = performance.now();
    // What fails without a defect would seem to find every mutant.
    if (!await passes(tree, file, 600_000)) throw new Error(`${file} fails without a mutant`);
    times.set(file, performance.now() - started);
  });
  return times;
}

/** In which order test files look at a source's mutants: those that found the most in the least time come first. */
class Finders {
  readonly #found = new Map<string, number>();

  constructor(readonly times: ReadonlyMap<string, number>) {}

  order({ path, tests }: Case): string[] {
    const rank = (file: string) =>
      ((this.#found.get(`${path} ${file}`) ?? 0) + 1) / this.times.get(file)!;
    return tests.toSorted((a, b) => rank(b) - rank(a));
  }

  add({ path }: Case, file: string): void {
    const key = `${path} ${file}`;
    this.#found.set(key, (this.#found.get(key) ?? 0) + 1);
  }
}

async function survives(
  tree: string,
  one: Case,
  finders: Finders,
): Promise<boolean> {
  const file = join(tree, one.path);
  const original = await Deno.readTextFile(file);
  try {
    await Deno.writeTextFile(file, one.source);
    for (const test of finders.order(one)) {
      // Far longer than without a defect: then it loops.
      if (await passes(tree, test, 30_000 + 4 * finders.times.get(test)!)) continue;
      finders.add(one, test);
      return false;
    }
    return true;
  } finally {
    await Deno.writeTextFile(file, original);
  }
}

async function casesOf(name: string): Promise<Case[]> {
  const target = TARGETS[name];
  if (!target) throw new Error(`Unknown target ${name}: use ${Object.keys(TARGETS).join(", ")}`);
  const tests = await testFiles(target.tests);
  const sources = await Promise.all(target.sources.map(async (path) => {
    const mutants = mutantsOf(await Deno.readTextFile(join(ROOT, path)));
    return mutants.map((mutant) => ({ ...mutant, path, tests }));
  }));
  return sources.flat();
}

/** Resolves to the surviving cases, in order. */
async function run(cases: readonly Case[], jobs: number): Promise<Case[]> {
  const files = new Set(cases.flatMap(({ tests }) => tests));
  const finders = new Finders(await timesOf([...files], jobs));
  const found = new Set<Case>();
  let done = 0;
  await inTrees(cases, jobs, async (tree, one) => {
    if (await survives(tree, one, finders)) {
      found.add(one);
      console.log(`survived  ${nameOf(one)}  (line ${one.line})`);
    }
    if (++done % 50 === 0) console.error(`${done} of ${cases.length} mutants`);
  });
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
  const only = new RegExp(args.find((arg) => arg.startsWith("--only="))?.slice(7) ?? "");
  const targets = named.length ? named : Object.keys(TARGETS);
  const cases = (await Promise.all(targets.map(casesOf))).flat()
    .filter((one) => only.test(nameOf(one)));
  const survivors = await run(cases, jobs);
  const known = await knownSurvivors();
  const names = new Set(survivors.map(nameOf));
  const fresh = survivors.filter((one) => !known.includes(nameOf(one)));
  const sources = targets.flatMap((name) => TARGETS[name].sources);
  const gone = known.filter((name) =>
    sources.includes(name.split(": ")[0]) && only.test(name) && !names.has(name)
  );
  for (const name of gone) console.log(`killed by now, to be taken out of the list: ${name}`);
  console.log(
    `${cases.length} mutants, ${cases.length - survivors.length} killed, ` +
      `${survivors.length - fresh.length} known survivors, ${fresh.length} to kill`,
  );
  return fresh.length + gone.length ? 1 : 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));

/**
 * Records what docker compose prints for each case: `DOCKER_COMPOSE=/path/to/docker-compose deno run -A record.ts
 * [NAME…]`. It needs no daemon. Debian's docker-compose 2.40.3 made what is here.
 */
import { join } from "node:path";
import {
  type Case,
  caseNames,
  ELSEWHERE,
  FOLDER,
  formatOutcomes,
  type Outcome,
  readCase,
  stable,
  writeFiles,
} from "./case.ts";

const program = Deno.env.get("DOCKER_COMPOSE") ?? "docker-compose";

async function outcome(args: string[], one: Case, directory: string): Promise<Outcome> {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args,
    cwd: directory,
    clearEnv: true,
    env: { ...one.env, PWD: directory },
  }).output();
  const decoder = new TextDecoder();
  const said = code === 0 ? stable(args, decoder.decode(stdout)) : decoder.decode(stderr)
    .split("\n").filter((line) => !line.startsWith("time=")).join("\n");
  return {
    args: args.join(" "),
    exit: code,
    text: said.replaceAll(directory.replace(/\/project$/, ""), "/DIR"),
  };
}

const names = Deno.args.length > 0 ? Deno.args : await caseNames();
await Deno.mkdir(join(FOLDER, "want"), { recursive: true });
/** The outcomes in a directory made for them. */
async function outcomesOf(one: Case, runs: string[][]): Promise<Outcome[]> {
  const scratch = await Deno.makeTempDir();
  const directory = join(scratch, "project");
  await Deno.mkdir(directory);
  await writeFiles(one, directory);
  const outcomes: Outcome[] = [];
  for (const args of runs) outcomes.push(await outcome(args, one, directory));
  await Deno.remove(scratch, { recursive: true });
  return outcomes;
}

for (const name of names) {
  const one = await readCase(name);
  const outcomes = await outcomesOf(one, one.runs);
  // A hash of paths is another one in each directory.
  const again = await outcomesOf(one, one.runs.filter((args) => args.includes("--hash")));
  for (const { args, text } of again) {
    const first = outcomes.find((other) => other.args === args)!;
    const lines = text.split("\n");
    first.text = first.text.split("\n")
      .map((line, index) => line === lines[index] ? line : `${line.split(" ")[0]} ${ELSEWHERE}`)
      .join("\n");
  }
  await Deno.writeTextFile(join(FOLDER, "want", `${name}.txt`), formatOutcomes(outcomes));
}

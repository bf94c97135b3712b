/**
 * Records what docker compose prints for each case: `DOCKER_COMPOSE=/path/to/docker-compose deno run -A record.ts
 * [NAME…]`. It needs no daemon. Debian's docker-compose 2.40.3 made what is here.
 */
import { join } from "node:path";
import { type Case, caseNames, FOLDER, formatOutcomes, type Outcome, readCase, writeFiles } from "./case.ts";

const program = Deno.env.get("DOCKER_COMPOSE") ?? "docker-compose";

/** Lines of tables whose order docker compose leaves to chance. */
const UNORDERED = ["--volumes", "--networks", "--images", "--models", "--variables", "--services"];

function stable(args: readonly string[], text: string): string {
  if (args.includes("--format") || !UNORDERED.some((flag) => args.includes(flag))) return text;
  const lines = text.trimEnd().split("\n");
  const head = args.includes("--variables") ? lines.splice(0, 1) : [];
  return [...head, ...lines.sort()].join("\n") + "\n";
}

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
  return { args: args.join(" "), exit: code, text: said.replaceAll(directory, "/DIR/project") };
}

const names = Deno.args.length > 0 ? Deno.args : await caseNames();
await Deno.mkdir(join(FOLDER, "want"), { recursive: true });
for (const name of names) {
  const one = await readCase(name);
  const scratch = await Deno.makeTempDir();
  const directory = join(scratch, "project");
  await Deno.mkdir(directory);
  await writeFiles(one, directory);
  const outcomes: Outcome[] = [];
  for (const args of one.runs) outcomes.push(await outcome(args, one, directory));
  await Deno.writeTextFile(join(FOLDER, "want", `${name}.txt`), formatOutcomes(outcomes));
  await Deno.remove(scratch, { recursive: true });
}

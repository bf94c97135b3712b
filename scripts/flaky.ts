/**
 * Checks failed tests against the list of known flaky tests, test/flaky.txt. Reads from standard input the
 * lines `NAME => ./FILE:LINE:COLUMN` of a test run, one for each test that failed and then passed when it ran
 * alone.
 *
 * Exit code 1 where one of them is not in the list, or where the list is invalid: a malformed line, a file that
 * does not exist, an entry older than 60 days.
 */
import { join } from "node:path";

const ROOT = join(import.meta.dirname!, "..");
const MOST_DAYS = 60;

export interface FlakyTest {
  path: string;
  name: string;
  reason: string;
  /** Milliseconds since 1970, the day that it was entered. */
  since: number;
}

/** The entries of the list, and the errors of malformed lines. */
export function parseList(text: string): { entries: FlakyTest[]; wrong: string[] } {
  const entries: FlakyTest[] = [];
  const wrong: string[] = [];
  for (const line of text.split("\n")) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const [path, name, reason, date, ...more] = line.split("|").map((part) => part.trim());
    const since = /^\d{4}-\d{2}-\d{2}$/.test(date ?? "") ? Date.parse(date) : NaN;
    if (!path || !name || !reason || Number.isNaN(since) || more.length > 0) {
      wrong.push(`not "path | test name | reason | YYYY-MM-DD": ${line}`);
    } else entries.push({ path, name, reason, since });
  }
  return { entries, wrong };
}

/** Why an entry is no longer valid; undefined where it is. */
export function outdated({ path, name, since }: FlakyTest, now: number): string | undefined {
  const days = Math.floor((now - since) / 86_400_000);
  if (days < -1) return `${path}: ${name}: its date is to come`;
  if (days <= MOST_DAYS) return undefined;
  return `${path}: ${name}: flaky for ${days} days, at most ${MOST_DAYS} are allowed: mend it`;
}

/** The lines of a run that no entry covers; an entry of a test also covers its steps. */
export function unlisted(lines: readonly string[], entries: readonly FlakyTest[]): string[] {
  return lines.map((line) => line.trim()).filter((line) => line !== "").filter((line) => {
    const found = /^(.*) => \.\/(.*?):\d+:\d+$/.exec(line);
    return !found ||
      !entries.some(({ path, name }) =>
        path === found[2] && (found[1] === name || found[1].startsWith(`${name} ... `))
      );
  });
}

if (import.meta.main) {
  const { entries, wrong } = parseList(await Deno.readTextFile(join(ROOT, "test/flaky.txt")));
  for (const entry of entries) {
    const why = outdated(entry, Date.now());
    if (why !== undefined) wrong.push(why);
    const there = await Deno.stat(join(ROOT, entry.path)).catch(() => undefined);
    if (!there) wrong.push(`${entry.path}: there is no such file`);
  }
  for (const line of wrong) console.log(`test/flaky.txt: ${line}`);
  const input = Deno.stdin.isTerminal() ? "" : await new Response(Deno.stdin.readable).text();
  const unknown = unlisted(input.split("\n"), entries);
  for (const line of unknown) console.log(`not in test/flaky.txt: ${line}`);
  if (wrong.length + unknown.length > 0) Deno.exit(1);
}

/** Compares an engine's deployments with docker's record, case by case. */
import assert from "node:assert/strict";
import type { Case, Runner } from "./case.ts";
import { CASES } from "./cases.ts";
import { apply, type Difference, type Report, reportOf } from "./report.ts";
import record from "./record.json" with { type: "json" };

/** A row in which an engine may differ from docker. One that differs nowhere fails the suite. */
export interface Allowance {
  /** The whole key, or a pattern of keys. */
  key: string | RegExp;
  /** Names of cases; absent: all. */
  cases?: string[] | RegExp;
  why: string;
}

export interface Recorded {
  /** The plain deployment. */
  plain: Report;
  /** How each case differs from it. */
  cases: Record<string, Difference>;
}

const PARALLEL = 4;

/** Runs all cases, some at a time, and hands each outcome over as a report; in the order of the cases. */
export async function reports(
  runner: Runner,
  cases: readonly Case[],
  onReport: (test: Case, report: Report) => Promise<void> | void,
): Promise<void> {
  const [plain] = CASES;
  const { host } = runner;
  const first = reportOf(await runner.run(plain), { test: plain, host });
  assert.ok(!first.fails, "the plain deployment fails");
  const waiting = cases.map(() => Promise.withResolvers<Report>());
  let next = 0;
  const work = async () => {
    while (next < cases.length) {
      const at = next++;
      const test = cases[at];
      try {
        const outcome = await runner.run(test);
        waiting[at].resolve(reportOf(outcome, { test, host, plain: first }));
      } catch (error) {
        waiting[at].promise.catch(() => {/* told where it is awaited */});
        waiting[at].reject(error);
      }
    }
  };
  const workers = Array.from({ length: PARALLEL }, work);
  for (const [at, test] of cases.entries()) await onReport(test, await waiting[at].promise);
  await Promise.all(workers);
}

const matches = (pattern: string | RegExp, text: string) =>
  typeof pattern === "string" ? pattern === text : pattern.test(text);

const applies = ({ key, cases }: Allowance, test: Case, row: string) =>
  matches(key, row) &&
  (cases === undefined ||
    (Array.isArray(cases) ? cases.includes(test.name) : cases.test(test.name)));

/** One step for each case, and a last one for allowances that are needed no more. */
export async function deployGolden(
  t: Deno.TestContext,
  runner: Runner,
  allowances: readonly Allowance[],
  cases: readonly Case[] = CASES,
): Promise<void> {
  const recorded = record as unknown as Recorded;
  const used = new Set<Allowance>();
  await reports(runner, cases, async (test, report) => {
    await t.step(test.name, () => {
      const own = recorded.cases[test.name];
      const golden = own.fails ? { fails: "yes" } : apply(recorded.plain, own);
      const all = [...new Set([...Object.keys(golden), ...Object.keys(report)])].sort();
      // Where only one of them runs it, there is nothing else to compare.
      const keys = report.fails !== golden.fails ? ["fails"] : all;
      const wrong = keys.filter((key) => report[key] !== golden[key]).filter((key) => {
        const reasons = allowances.filter((allowance) => applies(allowance, test, key));
        for (const reason of reasons) used.add(reason);
        return reasons.length === 0;
      });
      const told = (of: Report) => Object.fromEntries(wrong.map((key) => [key, of[key] ?? null]));
      assert.deepEqual(told(report), told(golden));
    });
  });
  if (cases !== CASES) return;
  await t.step("every allowance is still needed", () => {
    assert.deepEqual(allowances.filter((one) => !used.has(one)), []);
  });
}

/** The namespaces of the process that runs the suite, where the engine is on the same host. */
export async function ownNamespaces(
  pid: number | "self" = "self",
): Promise<Record<string, string>> {
  const names = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
  return Object.fromEntries(
    await Promise.all(
      names.map(async (name) => [name, await Deno.readLink(`/proc/${pid}/ns/${name}`)]),
    ),
  );
}

/** The part of docs/backends.md that says which tests of the contract are left out on which engine, and why. */
import { type Engine, ENGINES } from "../../test/contract/deploy_engines.ts";
import { contractTests, leftOut } from "../../test/contract/deploy_suite.ts";

/** Reason → titles of the tests, in the order of the contract. */
function leftOutOf(engine: Engine): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { title, needs } of contractTests(engine.fields)) {
    const why = needs.map((need) => leftOut(need, engine)).find((why) => why);
    if (why) found.set(why, [...found.get(why) ?? [], title]);
  }
  return found;
}

export function enginesPart(): string {
  const engines = Object.entries<Engine>(ENGINES);
  // Those on which the same is left out share an entry.
  const alike = Map.groupBy(engines, ([, engine]) => JSON.stringify([...leftOutOf(engine)]));
  return [...alike.values()].map((group) => {
    const [[, engine]] = group;
    const reasons = [...leftOutOf(engine)].map(([why, titles]) =>
      `- ${why}\n${titles.map((title) => `  - ${title}\n`).join("")}`
    );
    const all = contractTests(engine.fields).length;
    const count = [...leftOutOf(engine).values()].flat().length;
    const names = group.map(([name]) => name).join("; ");
    return `**${names}**: ${count} of ${all} tests are left out.\n\n${reasons.join("")}`;
  }).join("\n");
}

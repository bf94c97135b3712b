/** The part of docs/backends.md that says which tests of the contract are left out on which engine, and why. */
import { type Engine, ENGINES } from "../../test/contract/deploy_engines.ts";
import { leftOutOn } from "../../test/contract/deploy_suite.ts";

export function enginesPart(): string {
  const engines = Object.entries<Engine>(ENGINES)
    .map(([name, engine]) => ({ name, ...leftOutOn(engine) }));
  // Those on which the same is left out share an entry.
  const alike = Map.groupBy(engines, ({ titles }) => JSON.stringify([...titles]));
  return [...alike.values()].map((group) => {
    const [{ count, titles }] = group;
    const reasons = [...titles].map(([why, tests]) =>
      `- ${why}\n${tests.map((title) => `  - ${title}\n`).join("")}`
    );
    const names = group.map(({ name }) => name).join("; ");
    const left = [...titles.values()].flat().length;
    return `**${names}**: ${left} of ${count} tests are left out.\n\n${reasons.join("")}`;
  }).join("\n");
}

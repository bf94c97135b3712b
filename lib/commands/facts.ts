/** Facts about one thing for a person to read. */

const COLUMN = 12;

/** "Name:       web"; a fact without value is left out, further lines of a value stand below the first. */
export function renderFacts(facts: readonly [string, string][]): string {
  return facts.filter(([, value]) => value !== "").map(([key, value]) =>
    `${`${key}:`.padEnd(COLUMN)}${value.replaceAll("\n", `\n${" ".repeat(COLUMN)}`)}\n`
  ).join("");
}

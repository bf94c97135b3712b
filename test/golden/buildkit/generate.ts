/**
 * Writes what BuildKit makes of the cases to `expected/`, for svc to be compared with:
 *
 *     deno run -A test/golden/buildkit/generate.ts [NAME...] && deno fmt test/golden
 *
 * What it needs stands in docker.ts.
 */
import { join } from "node:path";
import { CASES } from "./cases.ts";
import { openReference } from "./docker.ts";
import { startServers } from "./servers.ts";

async function main(): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "svc-golden-" });
  try {
    const reference = await openReference(folder);
    await using servers = await startServers(join(folder, "served"));
    const wanted = CASES.filter(({ name }) => Deno.args.length === 0 || Deno.args.includes(name));
    for (const test of wanted) {
      const made = await reference.build(servers.fill(test));
      const failed = "fails" in made;
      if (failed !== (test.fails === true) && !test.deliberate) {
        console.error(`${test.name}: ${failed ? made.message : "does not fail"}`);
        if (failed) continue;
      }
      const expected = failed ? { fails: true } : made;
      await Deno.writeTextFile(
        join(import.meta.dirname!, "expected", `${test.name}.json`),
        servers.blank(JSON.stringify(expected, null, 1)) + "\n",
      );
      console.log(test.name);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

if (import.meta.main) await main();

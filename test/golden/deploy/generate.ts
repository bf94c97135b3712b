/**
 * Writes what docker makes of the cases to `record.json`, for engines to be compared with:
 *
 *     deno run -A test/golden/deploy/generate.ts [NAME...] && deno fmt test/golden/deploy/record.json
 *
 * `DOCKER_HOST` names the unix socket of a daemon of docker 28 on cgroups v1, with the containerd image store
 * and `--init-path` of a static tini. `DOCKERD_PID` is its process where it has namespaces of its own.
 */
import { join } from "node:path";
import { CASES } from "./cases.ts";
import { dockerRunner } from "./docker.ts";
import { differ, type Report } from "./report.ts";
import { ownNamespaces, type Recorded, reports } from "./suite.ts";

async function main(): Promise<void> {
  const path = join(import.meta.dirname!, "record.json");
  const socket = (Deno.env.get("DOCKER_HOST") ?? "").replace("unix://", "");
  const daemon = Number(Deno.env.get("DOCKERD_PID"));
  const folder = await Deno.makeTempDir({ prefix: "svc-golden-" });
  try {
    const runner = await dockerRunner(socket, folder, CASES, await ownNamespaces(daemon || "self"));
    const wanted = CASES.filter(({ name }) => Deno.args.length === 0 || Deno.args.includes(name));
    const old: Recorded = JSON.parse(await Deno.readTextFile(path).catch(() => "{}"));
    const record: Recorded = { plain: old.plain ?? {}, cases: {} };
    const made: Record<string, Report> = {};
    await reports(runner, wanted, (test, report) => {
      if ((report.fails !== undefined) !== (test.fails === true) && !test.deliberate) {
        console.error(`${test.name}: ${report.fails ? "docker refuses it" : "does not fail"}`);
      }
      made[test.name] = report;
    });
    if (made.plain) record.plain = made.plain;
    for (const { name } of CASES) {
      if (made[name]) record.cases[name] = differ(record.plain, made[name]);
      else if (old.cases?.[name]) record.cases[name] = old.cases[name];
    }
    for (const [name, report] of Object.entries(made)) {
      if (report.fails) record.cases[name] = { fails: "yes" };
    }
    await Deno.writeTextFile(path, JSON.stringify(record, null, 1) + "\n");
    console.log(`${Object.keys(made).length} cases`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

if (import.meta.main) await main();

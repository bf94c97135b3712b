/** `svc compose config` against what docker compose printed for the same files (test/golden/compose). */
import assert from "node:assert/strict";
import { join } from "node:path";
import { asSvcError } from "../../lib/base/errors.ts";
import { renderConfig } from "../../lib/commands/compose/config.ts";
import { CONFIG_OPTIONS } from "../../lib/commands/compose/config_options.ts";
import { projectLoadOptions } from "../../lib/commands/compose/open_project.ts";
import { PROJECT_OPTIONS } from "../../lib/commands/compose/options.ts";
import { loadOptions } from "../../lib/config/load.ts";
import {
  type Case,
  caseNames,
  ELSEWHERE,
  type Outcome,
  readCase,
  readOutcomes,
  stable,
  writeFiles,
} from "../golden/compose/case.ts";

/** Runs where svc does other than docker compose, on purpose. */
const OTHERWISE: Record<string, string> = {
  "build_ssh_map config --format json": "docker compose fails to write its own JSON",
  "interpolate_casts config --no-interpolate": "docker compose refuses limits that are variables",
  "wrong_ulimit_text config --no-interpolate": "the same",
  "extensions_top config": "1e+08 is printed as the number that it is",
};

async function outcome(words: string[], one: Case, directory: string): Promise<Outcome> {
  const group = loadOptions(PROJECT_OPTIONS, {
    args: words,
    allowPositionals: true,
    passThroughAfter: 1,
  });
  const own = loadOptions(CONFIG_OPTIONS, {
    args: group.positionals.slice(1),
    allowPositionals: true,
  });
  const env = { ...one.env, PWD: directory };
  const args = words.join(" ");
  const scratch = directory.replace(/\/project$/, "");
  try {
    const options = projectLoadOptions(group.values, env, { cwd: directory });
    const values = { ...own.values, allResources: group.values.allResources };
    const { text } = await renderConfig(options, values, own.positionals);
    return { args, exit: 0, text: stable(words, text.replaceAll(scratch, "/DIR")) };
  } catch (error) {
    const { code, message } = asSvcError(error);
    assert.notEqual(code, "internal", message);
    return { args, exit: 1, text: message.replaceAll(scratch, "/DIR") };
  }
}

/** Text as it is in a file of outcomes. */
const ended = (text: string) => text.endsWith("\n") ? text : `${text}\n`;

function compare(got: Outcome, want: Outcome): void {
  if (want.exit !== 0 || got.exit !== 0) {
    assert.equal(
      got.exit,
      Math.min(want.exit, 1),
      `${want.args}: ${got.text}\nwanted: ${want.text}`,
    );
    // Every error names the place where something can be mended.
    assert.match(got.text, /^Cannot \w+ .*: /);
    return;
  }
  const wanted = want.text.split("\n");
  const lines = ended(got.text).split("\n").map((line, index) =>
    wanted[index]?.endsWith(ELSEWHERE) ? `${line.split(" ")[0]} ${ELSEWHERE}` : line
  );
  assert.deepEqual(lines, wanted, want.args);
}

const names = await caseNames();
const only = Deno.env.get("COMPOSE_CASES")?.split(",");

Deno.test("compose config prints what docker compose prints", async (t) => {
  assert.ok(names.length >= 250);
  for (const name of names) {
    if (only && !only.includes(name)) continue;
    await t.step({
      name,
      async fn() {
        const one = await readCase(name);
        const scratch = await Deno.makeTempDir();
        const directory = join(scratch, "project");
        await Deno.mkdir(directory);
        try {
          await writeFiles(one, directory);
          const want = await readOutcomes(name);
          for (const [index, words] of one.runs.entries()) {
            if (Object.hasOwn(OTHERWISE, `${name} ${words.join(" ")}`)) continue;
            compare(await outcome(words, one, directory), want[index]);
          }
        } finally {
          await Deno.remove(scratch, { recursive: true });
        }
      },
    });
  }
});

/** Runs cases on a deploy backend. */
import type { DeployBackend, LogOptions } from "../../../lib/deploy/backend.ts";
import { validateDeploySpec } from "../../../lib/api/deploy_spec_parse.ts";
import { type Case, nameOf, type Outcome, PATIENCE, type Runner } from "./case.ts";
import { tagOf } from "./images.ts";

/** What was printed up to the `count`-th end of a report, or, without a count, all of it. */
async function output(backend: DeployBackend, name: string, count?: number): Promise<string> {
  const stop = AbortSignal.timeout(PATIENCE);
  const options: LogOptions = { follow: count !== undefined, signal: stop };
  let text = "", ends = 0;
  for await (const frames of backend.logs(name, options)) {
    for (const { line } of frames) {
      text += `${line}\n`;
      if (line.startsWith("@@ end") && ++ends === count) return text;
    }
  }
  if (count !== undefined) throw new Error(`${name}: no report\n${text}`);
  return text;
}

async function steps(backend: DeployBackend, test: Case): Promise<Outcome> {
  const name = nameOf(test);
  const parts = async (count?: number) =>
    (await output(backend, name, count)).split(/^@@ end\r?$/m);
  const outcome: Outcome = { report: (await parts(1))[0] };
  if (test.exec) {
    const request = { ...test.exec, command: ["/probe", "-e"] };
    const session = await backend.caps.exec!(name, request);
    const [text] = await Promise.all([
      new Response(session.stdout).text(),
      session.stderr.pipeTo(new WritableStream()),
    ]);
    await session.stdin.abort().catch(() => {/* it is gone */});
    await session.exit;
    outcome.exec = text;
  }
  if (test.then === "restart") {
    await backend.power(name, "restart");
    outcome.again = (await parts(2))[1];
  } else if (test.then) {
    if (test.then === "stop") await backend.power(name, "stop");
    for (const until = Date.now() + PATIENCE;;) {
      const code = (await backend.status(name))?.instances[0]?.exitCode;
      if (code !== undefined) outcome.exit = code;
      if (code !== undefined || Date.now() > until) break;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    outcome.report += (await parts())[1] ?? "";
  }
  return outcome;
}

/** The backend has the images of `writeImages` under their tags. */
export function backendRunner(backend: DeployBackend, host: Record<string, string>): Runner {
  return {
    host,
    async run(test) {
      const name = nameOf(test);
      try {
        const spec = validateDeploySpec({
          restart: "no",
          // One that is told to stop has the time to say what it was told.
          stopGracePeriod: test.then === "stop" ? "20s" : "2s",
          ...test.spec,
          volumes: test.spec?.volumes?.map((volume) => ({
            ...volume,
            name: `${name}-${volume.name}`,
          })),
          name,
          image: tagOf(test),
        });
        await backend.apply(spec);
      } catch (error) {
        return { fails: (error as Error).message };
      }
      try {
        return await steps(backend, test);
      } finally {
        await backend.delete(name);
      }
    },
  };
}

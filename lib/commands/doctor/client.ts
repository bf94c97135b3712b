/** `svc doctor`: the way to the server, and the engines of this host. */
import { dirname } from "node:path";
import { ensureDir, writeFileAtomic } from "../../base/fs.ts";
import {
  checkTrust,
  type Fix,
  isLoopback,
  type Registry,
  type TrustReport,
} from "../../client/doctor/trust.ts";
import { sessionChecks } from "../../client/doctor/session.ts";
import { type Check, checkWay } from "../../client/doctor/way.ts";
import type { Invocation } from "../command.ts";
import { openConnection } from "../connect.ts";
import type { DOCTOR_OPTIONS } from "../doctor_options.ts";
import { terminalPrompt } from "../prompt.ts";
import { checkLine } from "./line.ts";

type DoctorInvocation = Invocation<typeof DOCTOR_OPTIONS>;

function asCheck({ engine, ok, detail, fixes }: TrustReport): Check {
  return {
    name: `registry trust of ${engine}`,
    outcome: ok ? "ok" : "warning",
    detail,
    ...(!ok &&
      {
        help: fixes.length > 0
          ? "svc doctor --fix writes what is missing"
          : "correct the named file",
      }),
  };
}

async function applyFix(
  { path, content, then }: Fix,
  invocation: DoctorInvocation,
): Promise<boolean> {
  const { io, env, values } = invocation;
  const before = await Deno.readTextFile(path).catch(() => undefined);
  await io.stderr.write(
    `\n${before === undefined ? "new file" : "changed file"} ${path}:\n` +
      content.split("\n").map((row) => `    ${row}`).join("\n").trimEnd() + "\n",
  );
  const agreed = values.yes || await terminalPrompt(io, env).confirm(`Write ${path}?`);
  if (!agreed) {
    await io.stderr.write("not written; --yes writes without asking\n");
    return false;
  }
  await ensureDir(dirname(path));
  const mode = await Deno.stat(path).then((info) => info.mode! & 0o777, () => 0o644);
  await writeFileAtomic(path, content, { mode });
  await io.stderr.write(`wrote ${path}${then ? `; now: ${then}` : ""}\n`);
  return true;
}

export async function runClientDoctor(invocation: DoctorInvocation): Promise<number> {
  const { io, env, values } = invocation;
  const show = (check: Check) =>
    io.stdout.write(values.output === "json" ? JSON.stringify(check) + "\n" : checkLine(check));
  const { target, way, client } = await openConnection(invocation);
  const { checks, info } = await checkWay({ target, way, client, signal: io.signal });
  const { ghBin } = values;
  const sessions = await sessionChecks({ target, env, ...(ghBin !== undefined && { ghBin }) });
  for (const check of [...checks, ...sessions]) await show(check);
  let works = checks.every(({ outcome }) => outcome !== "failed");
  const advertised = target.registryHost ?? info?.registry;
  if (advertised === undefined || Deno.build.os !== "linux") return works ? 0 : 1;
  const host = advertised.replace(/^https?:\/\//, "");
  const ca = target.tls?.["ca-cert"];
  const plain = advertised.startsWith("http://") ||
    (!advertised.startsWith("https://") && (target.server.startsWith("http:") || isLoopback(host)));
  const registry: Registry = {
    host,
    plain,
    ...(!plain && ca !== undefined && { ca: await Deno.readTextFile(ca) }),
  };
  const reports = await checkTrust({ registry, root: "/" });
  for (const report of reports) {
    if (!values.fix || report.ok) {
      await show(asCheck(report));
      continue;
    }
    for (const fix of report.fixes) if (!await applyFix(fix, invocation)) works = false;
  }
  return works ? 0 : 1;
}

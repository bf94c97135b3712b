/** `svc doctor`: the way to the server, and the engines of this host. */
import { dirname } from "node:path";
import type { ServerInfo } from "../../api/info.ts";
import { SvcError, systemCode } from "../../base/errors.ts";
import { ensureDir, writeFileAtomic } from "../../base/fs.ts";
import {
  type Fix,
  isElsewhere,
  type Registry,
  registryOf,
  type TrustReport,
} from "../../client/doctor/engine.ts";
import { checkTrust } from "../../client/doctor/trust.ts";
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
          : "correct the named file by hand",
      }),
  };
}

const SHOWN: Record<ServerInfo["registryMode"], (backend: string, writable: boolean) => string> = {
  store: () => "it keeps what is pushed to it",
  "host-native": (backend, writable) =>
    `it shows the images of ${backend}, and ${
      writable ? "what is pushed becomes one" : "takes no pushes"
    }`,
  union: (backend) => `it keeps what is pushed to it, and shows the images of ${backend} too`,
};

const BUILDS: Record<Exclude<ServerInfo["build"]["at"], "nowhere">, string> = {
  here: "the server runs them",
  builder: "the server's builder runs them",
  container: "a container runs them, which the server's first build starts",
};

/** What the server found out of its place. A server of another version may tell less. */
function serverChecks({ deploy, build }: Partial<ServerInfo>): Check[] {
  const checks: Check[] = [];
  if (deploy) {
    const { available, backend, engine, reason = "" } = deploy;
    const detail = available ? `they run on ${engine ?? backend}` : reason;
    checks.push({ name: "deployments", outcome: available ? "ok" : "warning", detail });
  }
  if (build) {
    const { at, reason = "" } = build;
    const detail = at === "nowhere" ? reason : BUILDS[at];
    checks.push({ name: "builds", outcome: at === "nowhere" ? "warning" : "ok", detail });
  }
  return checks;
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
  try {
    await ensureDir(dirname(path));
    const mode = await Deno.stat(path).then((info) => info.mode! & 0o777, () => 0o644);
    await writeFileAtomic(path, content, { mode });
  } catch (cause) {
    const code = systemCode(cause);
    if (code !== "EACCES" && code !== "EPERM" && code !== "EROFS") throw cause;
    const why = code === "EROFS" ? "the file system is read-only" : "permission denied";
    throw new SvcError("denied", `Cannot write ${path}: ${why}`, {
      cause,
      help: "run svc doctor --fix as root, or write the file that is shown above by hand",
    });
  }
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
  for (const check of info ? serverChecks(info) : []) await show(check);
  if (info?.registryMode && info.deploy) {
    await show({
      name: "registry's images",
      outcome: "ok",
      detail: SHOWN[info.registryMode]?.(info.deploy.backend, info.registryWritable ?? false) ??
        info.registryMode,
    });
  }
  let works = checks.every(({ outcome }) => outcome !== "failed");
  const advertised = target.registryHost ?? info?.registry;
  if (advertised === undefined || Deno.build.os !== "linux") return works ? 0 : 1;
  const place = registryOf(advertised, target.server);
  if (isElsewhere(place.host, target)) {
    await show({
      name: "registry",
      outcome: "ok",
      detail: `the server names it ${place.host}, by which only its own host can pull`,
    });
    return works ? 0 : 1;
  }
  const { "ca-cert": ca, "insecure-skip-verify": unverified } = target.tls ?? {};
  if (!place.plain && unverified && ca === undefined) {
    await show({
      name: "registry trust",
      outcome: "warning",
      detail: `the context does not verify ${place.host}, so its CA is not known here`,
      help: "name its CA in tls.ca-cert: engines then can be told of it",
    });
    return works ? 0 : 1;
  }
  const registry: Registry = {
    ...place,
    ...(!place.plain && ca !== undefined && { ca: await Deno.readTextFile(ca) }),
  };
  const check = () => checkTrust({ registry, root: "/" });
  const reports = await check();
  const wanting = values.fix ? reports.filter(({ ok, fixes }) => !ok && fixes.length > 0) : [];
  let written = 0;
  for (const fix of wanting.flatMap(({ fixes }) => fixes)) {
    if (await applyFix(fix, invocation)) written++;
    else works = false;
  }
  for (const report of written > 0 ? await check() : reports) await show(asCheck(report));
  return works ? 0 : 1;
}

/** How sessions would reach workloads, and which tool they would run: told before one is opened. */
import { absentNotes } from "../profile/absent.ts";
import type { Target } from "../resolve.ts";
import { ghCommand } from "../credentials/gh.ts";
import type { Check } from "./way.ts";

function streams({ transport, viaServer: { value, source } }: Target): Check | undefined {
  const name = "workload streams";
  const ok = { name, outcome: "ok" as const };
  if (transport.kind !== "kube") {
    return source === "default" ? undefined : {
      ...ok,
      detail: `through the server; via-server (${source}) matters in a cluster profile only`,
    };
  }
  if (value) return { ...ok, detail: `through the server (${source})` };
  const detail = "through the server: the way straight to the cluster is not in this build yet";
  if (source === "default") return { ...ok, detail };
  return {
    name,
    outcome: "warning",
    detail: `${detail}, so via-server=false (${source}) has no effect`,
    help: "leave via-server out, or set it to true, which is what happens",
  };
}

function conduit({ conduit: { value, source } }: Target): Check | undefined {
  if (source === "default") return undefined;
  const usual = value === "port-forward";
  return {
    name: "conduit",
    outcome: usual ? "ok" : "warning",
    detail: `${value} (${source}); conduits are not in this build yet`,
    ...(!usual && { help: "no command of this build opens one: it has no effect" }),
  };
}

async function gh(
  ghBin: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Check | undefined> {
  if (ghBin === undefined) return undefined;
  const { found } = await ghCommand({ ghBin, env });
  const name = "gh credential source";
  const later = "sessions, which would run it, are not in this build yet";
  return found ? { name, outcome: "ok", detail: `${found} (SVC_GH_BIN); ${later}` } : {
    name,
    outcome: "warning",
    detail: `${ghBin} (SVC_GH_BIN) is no program that can be run; ${later}`,
    help: "set SVC_GH_BIN to the path of gh, or unset it to take the one on PATH",
  };
}

export interface SessionInput {
  target: Target;
  /** `SVC_GH_BIN`. */
  ghBin?: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** A line for each setting that somebody made; the defaults need none. */
export async function sessionChecks({ target, ghBin, env }: SessionInput): Promise<Check[]> {
  const { conduit: { mode: _, ...rest } = {}, ...settings } = target.settings;
  // The mode has a line of its own.
  const kept = absentNotes({ ...settings, conduit: rest }).map((detail): Check => ({
    name: "profile",
    outcome: "warning",
    detail,
  }));
  const checks = [streams(target), conduit(target), await gh(ghBin, env), ...kept];
  return checks.filter((check) => check !== undefined);
}

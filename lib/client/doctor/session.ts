/** How sessions reach workloads, and which tools they would run: shown before a session is opened. */
import type { Target } from "../resolve.ts";
import { ghCommand } from "../../credentials/gh.ts";
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

async function conduit(
  { conduit: { value, source }, settings }: Target,
): Promise<Check | undefined> {
  if (source === "default") return undefined;
  const says = (what: string): Check => ({
    name: "conduit",
    outcome: "ok",
    detail: `${value} (${source}): ${what}`,
  });
  if (value !== "socks5") return says("sessions forward each port that a deployment declares");
  const { DEFAULT_SOCKS5_LISTEN } = await import("../conduit/socks5.ts");
  const listen = settings.conduit?.socks5?.listen ?? DEFAULT_SOCKS5_LISTEN;
  return says(`sessions open a SOCKS5 proxy on ${listen}`);
}

async function gh(
  ghBin: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Check | undefined> {
  if (ghBin === undefined) return undefined;
  const { found } = await ghCommand({ ghBin, env });
  const name = "gh credential source";
  const later = "sessions run it for credentials with backend: gh";
  return found ? { name, outcome: "ok", detail: `${found} (SVC_GH_BIN); ${later}` } : {
    name,
    outcome: "warning",
    detail: `${ghBin} (SVC_GH_BIN) is not a program that can be run; ${later}`,
    help: "set SVC_GH_BIN to the path of gh, or unset it to take the one on PATH",
  };
}

export interface SessionInput {
  target: Target;
  /** `SVC_GH_BIN`. */
  ghBin?: string;
  env: Readonly<Record<string, string | undefined>>;
}

/** A line for each setting that is not the default. */
export async function sessionChecks({ target, ghBin, env }: SessionInput): Promise<Check[]> {
  const { ingressChecks } = await import("./ingress.ts");
  const checks = [
    ...[streams(target), await conduit(target)],
    ...await ingressChecks(target),
    await gh(ghBin, env),
  ];
  return checks.filter((check) => check !== undefined);
}

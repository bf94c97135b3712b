/** Checks of the profile's ingress: whether its files are valid, before a session or a deploy needs them. */
import { SvcError } from "../../base/errors.ts";
import type { Target } from "../resolve.ts";
import type { Check } from "./way.ts";

type Warn = (detail: string) => void;

/** The text for a check that passes; undefined: nothing to report. Throws what is wrong. */
type Look = (target: Target, warn: Warn) => Promise<string | undefined>;

const mode: Look = async ({ settings, transport, profilePath }, warn) => {
  const { mode, controller, ...ingress } = settings.conduit?.ingress ?? {};
  if (mode === "native") {
    const { requireCluster } = await import("../conduit/ingress_native.ts");
    const cluster = transport.kind === "kube" ? transport.settings : undefined;
    requireCluster({ controller, cluster });
    return "native: the cluster's ingress controller is forwarded to this machine";
  }
  if (mode !== "emulate") return undefined;
  const { "ca-file": certificate, "ca-key-file": key } = ingress;
  if (certificate !== undefined && key !== undefined) {
    const { configuredAuthority } = await import("../conduit/ingress_authority.ts");
    await configuredAuthority({ certificate, key }, warn);
    return `emulated; names without a certificate have one signed by ${certificate}`;
  }
  const { authorityFolder } = await import("../conduit/ingress.ts");
  const folder = authorityFolder(profilePath);
  return `emulated; names without a certificate have one of svc's own authority, kept in ${folder}`;
};

const certificates: Look = async ({ settings }, warn) => {
  const rules = settings.conduit?.ingress?.certificates ?? [];
  if (rules.length === 0) return undefined;
  const { loadCertificates } = await import("../conduit/certificates.ts");
  const { all } = await loadCertificates(rules, warn);
  return all.flatMap(({ patterns }) => patterns).join(", ");
};

async function check(name: string, look: Look, target: Target): Promise<Check[]> {
  const warnings: Check[] = [];
  try {
    const detail = await look(target, (detail) => {
      warnings.push({ name, outcome: "warning", detail });
    });
    return [...detail === undefined ? [] : [{ name, outcome: "ok" as const, detail }], ...warnings];
  } catch (error) {
    const help = error instanceof SvcError ? { help: error.help } : {};
    return [...warnings, { name, outcome: "failed", detail: (error as Error).message, ...help }];
  }
}

/** No checks where the profile has no ingress. */
export async function ingressChecks(target: Target): Promise<Check[]> {
  return [
    ...await check("ingress of sessions", mode, target),
    ...await check("ingress certificates", certificates, target),
  ];
}

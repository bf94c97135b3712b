/** Settings of one deployment, and what of it is looked at. */
import type { DeploySpec } from "../../../lib/api/deploy_spec.ts";
import type { ExecRequest } from "../../../lib/deploy/backend.ts";
import type { ContainerConfig } from "../../../lib/oci/types.ts";

export interface Case {
  /** Of the record. A DNS label. */
  name: string;
  /** On top of the common image's configuration, whose entrypoint is the probe. */
  image?: Partial<ContainerConfig>;
  /** On top of a spec that only names the image and does not restart. */
  spec?: Partial<DeploySpec>;
  /** The probe once more, inside, as `/probe -e`. */
  exec?: Omit<ExecRequest, "command">;
  /**
   * What is done then. "end": it ends by itself, `exit:N` among its arguments; "stop": it is told to;
   * "restart": and the probe reports again.
   */
  then?: "end" | "stop" | "restart";
  /** It has to be refused; docker refuses it too, unless `deliberate` says why not. */
  fails?: true;
  deliberate?: string;
}

/** What came of a case, as an engine's runner gives it: texts of the probe, not yet normalised. */
export interface Outcome {
  /** It was refused, or did not start. */
  fails?: string;
  report?: string;
  exec?: string;
  /** Exit code after `then`. */
  exit?: number;
  /** The report after a restart. */
  again?: string;
}

/** One engine: runs a case and takes everything of it away again. */
export interface Runner {
  run(test: Case): Promise<Outcome>;
  /** Of the host's namespaces where the engine runs: "net" → "net:[…]". */
  host: Record<string, string>;
}

/** How long a probe may take to report, in milliseconds. */
export const PATIENCE = 60_000;

export const nameOf = ({ name }: Case): string => `golden-${name}`;

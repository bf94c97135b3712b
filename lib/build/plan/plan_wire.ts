/** Messages between the event loop and the Worker that plans. All values can be cloned. */
import type { SvcError } from "../../base/errors.ts";
import type { ImageConfig, Platform } from "../../oci/types.ts";
import type { IgnorePattern } from "../parse/ignore.ts";
import type { BuildPlan } from "./graph.ts";
import type { PlanRequest } from "./plan.ts";

type Plain = Pick<
  PlanRequest,
  "target" | "buildArgs" | "labels" | "addHosts" | "network" | "allow"
>;

export interface PlanJob extends Plain {
  /** The Dockerfile, and its name in messages. */
  text: string;
  file: string;
  ignore: { patterns: IgnorePattern[]; file?: string };
  platforms: readonly Platform[];
  /** Named contexts: an image's name, or the label of a tree. The tree itself stays on the event loop. */
  contexts: [name: string, context: { image: string } | { label: string }][];
}

export type WireError = Pick<SvcError, "code" | "message" | "help" | "detail">;

export type ToPlanWorker =
  /** `line`: shared memory of one number, in which the Worker writes the line that it has reached. */
  | { type: "plan"; job: PlanJob; line: SharedArrayBuffer }
  | { type: "image"; ask: number; name: string; config: ImageConfig }
  | { type: "noImage"; ask: number; error: WireError };

export type FromPlanWorker =
  | { type: "resolve"; ask: number; name: string; platform: Platform }
  /**
   * Images have their name, their configuration and the number of the request for them; trees are
   * `PlannedTree`s.
   */
  | { type: "planned"; plans: BuildPlan[] }
  | { type: "failed"; error: WireError };

export const wireError = ({ code, message, help, detail }: SvcError): WireError => ({
  code,
  message,
  help,
  ...(detail !== undefined && { detail }),
});

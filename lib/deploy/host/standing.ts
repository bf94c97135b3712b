/** Which instances of several get the traffic: for names, published ports, and connections through the server. */
import type { Life } from "./life.ts";
import type { InstanceRecord } from "./record.ts";

/**
 * Best first. `ready`: it runs, and is healthy where it has a health check. `running`: its health check has not
 * passed. `trial`: it is to replace another instance. `coming`: its first run has not begun.
 */
const ORDER = ["ready", "running", "trial", "coming"] as const;
export type Standing = typeof ORDER[number];

/**
 * The standing of an instance in this phase; undefined: it gets no traffic. `known`: a run is on record that this
 * server has not looked at yet. It keeps its traffic until then.
 */
export function standingOf(
  phase: InstanceRecord["phase"],
  { run, state }: Pick<Life, "run" | "state">,
  known = false,
): Standing | undefined {
  if (known && state.is === "made" && phase === "ready") return "running";
  if (phase === "creating") return run ? "trial" : state.is === "made" ? "coming" : undefined;
  if (!run || phase !== "ready") return undefined;
  if (run.paused) return "running";
  return (run.health?.state ?? "healthy") === "healthy" ? "ready" : "running";
}

/** The instances of the best standing; none where no instance has a standing. */
export function best<T extends { standing: Standing | undefined }>(all: readonly T[]): T[] {
  for (const standing of ORDER) {
    const found = all.filter((one) => one.standing === standing);
    if (found.length > 0) return found;
  }
  return [];
}

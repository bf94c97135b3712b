/**
 * Limits of a Dockerfile and its plan: a larger one is a mistake or an attack, and would slow down all
 * builds.
 */
import { SvcError } from "../../base/errors.ts";

export const LIMITS = {
  /** Characters of a Dockerfile. */
  dockerfile: 4 << 20,
  /** Instructions of a Dockerfile. */
  instructions: 5000,
  /** Stages of a Dockerfile. */
  stages: 500,
  /** Ports of all EXPOSE instructions: enough for each port of tcp and udp. */
  ports: 2 * 65_536,
  /** Characters of the fully expanded Dockerfile; each step counts all variables that it sees. */
  expanded: 16 << 20,
  /** Layers of one file system; overlayfs takes no more. */
  layers: 500,
  /** Milliseconds of processor time for one plan. */
  time: 10_000,
  /** Megabytes of memory for one plan. */
  megabytes: 384,
} as const;

/** What a plan has used of its limits. */
export class LimitsUsed {
  #used = { ports: 0, expanded: 0 };
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** Adds to a count; throws `dockerfile_invalid` beyond the limit. */
  add(what: "ports" | "expanded", amount: number, line: number): void {
    this.#used[what] += amount;
    if (this.#used[what] <= LIMITS[what]) return;
    const limit = LIMITS[what].toLocaleString("en");
    throw tooMuch(
      this.#file,
      line,
      what === "ports"
        ? `the ports that EXPOSE names are more than ${limit}`
        : `with its variables expanded it is longer than ${LIMITS.expanded >> 20} MiB`,
    );
  }
}

export function tooMuch(file: string, line: number, why: string): SvcError {
  return new SvcError("dockerfile_invalid", `Cannot build ${file}: line ${line}: ${why}`, {
    help: "make it smaller, or divide it into several builds",
    detail: { line, file },
  });
}

/** Throws `dockerfile_invalid` where a file system has more layers than can be mounted. */
export function checkLayers(file: string, line: number, count: number): void {
  if (count <= LIMITS.layers) return;
  throw tooMuch(
    file,
    line,
    `this is layer ${count}, and a file system has at most ${LIMITS.layers} layers; ` +
      "join steps, or begin a stage with what another one made (COPY --from)",
  );
}

/** How large a Dockerfile and its plan may be: more is a mistake or an attack, and would cost all builds. */
import { SvcError } from "../../base/errors.ts";

export const LIMITS = {
  /** Characters of a Dockerfile. */
  dockerfile: 4 << 20,
  /** Instructions of one. */
  instructions: 5000,
  /** Stages of one. */
  stages: 500,
  /** Ports that all its EXPOSE name: each one of tcp and of udp. */
  ports: 2 * 65_536,
  /** Characters that it is when every variable stands for its value, for each step what it sees of them. */
  expanded: 16 << 20,
  /** Layers of one file system: overlayfs takes no more. */
  layers: 500,
  /** Milliseconds that planning may take, without the time that registries take. */
  time: 10_000,
  /** Of memory, for one plan. */
  megabytes: 384,
} as const;

/** What a plan has used of its limits. */
export class Usage {
  #used = { ports: 0, expanded: 0 };
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /** Throws `dockerfile_invalid` where that is more than there is. */
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

/** Throws `dockerfile_invalid` for a file system of more layers than can be mounted. */
export function checkLayers(file: string, line: number, count: number): void {
  if (count <= LIMITS.layers) return;
  throw tooMuch(
    file,
    line,
    `this is layer ${count}, and a file system has at most ${LIMITS.layers} layers; ` +
      "join steps, or begin a stage with what another one made (COPY --from)",
  );
}

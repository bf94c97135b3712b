/** Platforms whose programs this machine can run: its own, and those with an emulator in its kernel. */
import { SvcError } from "../base/errors.ts";
import { formatPlatform, hostPlatform, parsePlatform } from "../oci/platform.ts";
import type { Platform } from "../oci/types.ts";
import { runsHere } from "./foreign.ts";
import type { RunVertex, Vertex } from "./plan/graph.ts";

export interface Machine {
  host: Platform;
  /** True where programs of that architecture run, natively or in an emulator. */
  runs: (architecture: string) => Promise<boolean>;
}

/** What this machine runs, found out in temporary folders. */
export const thisMachine = (temporary: () => Promise<{ path: string } & AsyncDisposable>) => ({
  host: hostPlatform(),
  runs: async (architecture: string) => {
    await using folder = await temporary();
    return await runsHere(architecture, folder.path);
  },
});

async function canRun({ os, architecture }: Platform, machine: Machine): Promise<boolean> {
  const { host } = machine;
  if (os !== host.os) return false;
  return architecture === host.architecture || await machine.runs(architecture);
}

/**
 * Refuses a RUN for a platform whose programs this machine cannot run, before any step has run. Throws
 * `unsupported` with the step's line.
 */
export async function requireRunnable(
  vertices: readonly Vertex[],
  file: string,
  machine: Machine,
): Promise<void> {
  const runs = vertices.filter((vertex): vertex is RunVertex => vertex.kind === "run");
  const answers = new Map<string, boolean>();
  for (const vertex of runs) {
    const name = formatPlatform(vertex.platform);
    const known = answers.get(name) ?? await canRun(vertex.platform, machine);
    answers.set(name, known);
    if (known) continue;
    const place = vertex.line === undefined ? file : `${file}:${vertex.line}`;
    throw new SvcError(
      "unsupported",
      `Cannot build ${place}: ${vertex.text}: programs for ${name} do not run on this ` +
        `${formatPlatform(machine.host)} machine`,
      {
        help:
          `register an emulator for ${vertex.platform.architecture} with the kernel's binfmt_misc ` +
          "(Debian, Ubuntu: apt-get install qemu-user-static binfmt-support; a registration needs the flag " +
          "F), or do the work in a stage FROM --platform=$BUILDPLATFORM and COPY its result",
        detail: { line: vertex.line },
      },
    );
  }
}

/** Reads "linux/amd64,linux/arm64"; absent: this machine's platform. Throws `argument_invalid`. */
export function parsePlatforms(text: string | undefined): Platform[] {
  const words = (text ?? "").split(",").map((word) => word.trim()).filter(Boolean);
  if (words.length === 0) return [hostPlatform()];
  const platforms = new Map<string, Platform>();
  for (const word of words) {
    const platform = word === "local" ? hostPlatform() : parsePlatform(word);
    platforms.set(formatPlatform(platform), platform);
  }
  return [...platforms.values()];
}

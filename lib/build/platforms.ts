/** Which platforms' programs this machine can run: its own, and those that binfmt_misc has an interpreter for. */
import { SvcError } from "../base/errors.ts";
import { formatPlatform, hostPlatform, parsePlatform } from "../oci/platform.ts";
import type { Platform } from "../oci/types.ts";
import type { RunVertex, Vertex } from "./plan/graph.ts";

/** Names of the architecture, the number that stands for it in ELF headers, and their class and order. */
const MACHINES: Record<string, { machine: number; bits: 32 | 64; bigEndian?: boolean }> = {
  "386": { machine: 3, bits: 32 },
  amd64: { machine: 62, bits: 64 },
  arm: { machine: 40, bits: 32 },
  arm64: { machine: 183, bits: 64 },
  loong64: { machine: 258, bits: 64 },
  mips64le: { machine: 8, bits: 64 },
  ppc64le: { machine: 21, bits: 64 },
  riscv64: { machine: 243, bits: 64 },
  s390x: { machine: 22, bits: 64, bigEndian: true },
};

/** What the processor runs besides its own. */
const ALSO: Record<string, string[]> = { amd64: ["386"] };

/** The first bytes of a program of that architecture. */
function elfHeader(architecture: string): Uint8Array | undefined {
  const known = MACHINES[architecture];
  if (!known) return undefined;
  const header = new Uint8Array(20);
  header.set([0x7f, 0x45, 0x4c, 0x46, known.bits === 64 ? 2 : 1, known.bigEndian ? 2 : 1, 1]);
  const view = new DataView(header.buffer);
  view.setUint16(16, 2, !known.bigEndian);
  view.setUint16(18, known.machine, !known.bigEndian);
  return header;
}

const fromHex = (text: string) =>
  Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

/** Whether a registration, as `/proc/sys/fs/binfmt_misc/<name>` shows it, takes such a program. */
export function registrationTakes(text: string, architecture: string): boolean {
  const header = elfHeader(architecture);
  const field = (name: string) => new RegExp(`^${name} (.+)$`, "m").exec(text)?.[1];
  const magic = field("magic");
  if (!header || !magic || !/^enabled$/m.test(text)) return false;
  // Only with F is the interpreter found from inside a step's own root.
  if (!/^flags: .*F/m.test(text)) return false;
  const bytes = fromHex(magic);
  const mask = fromHex(field("mask") ?? "ff".repeat(bytes.length));
  const offset = Number(field("offset") ?? 0);
  return offset === 0 && bytes.length >= 20 &&
    bytes.subarray(0, 20).every((byte, at) => ((byte ^ header[at]) & mask[at]) === 0);
}

export interface Machine {
  host: Platform;
  /** The text of each binfmt_misc registration. */
  registrations: () => Promise<string[]>;
}

const BINFMT = "/proc/sys/fs/binfmt_misc";

export const thisMachine: Machine = {
  host: hostPlatform(),
  registrations: async () => {
    const texts: string[] = [];
    try {
      for await (const { name } of Deno.readDir(BINFMT)) {
        if (name === "register" || name === "status") continue;
        texts.push(await Deno.readTextFile(`${BINFMT}/${name}`));
      }
    } catch {
      // Not mounted, or not to be read: nothing is registered as far as anybody can tell.
    }
    return texts;
  },
};

async function canRun({ os, architecture }: Platform, machine: Machine): Promise<boolean> {
  const { host } = machine;
  if (os !== host.os) return false;
  if (architecture === host.architecture) return true;
  if (ALSO[host.architecture]?.includes(architecture)) return true;
  const texts = await machine.registrations();
  return texts.some((text) => registrationTakes(text, architecture));
}

/**
 * Refuses a RUN whose programs this machine cannot run, before anything has run. Throws `unsupported`
 * with the step's line.
 */
export async function requireRunnable(
  vertices: readonly Vertex[],
  file: string,
  machine: Machine = thisMachine,
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
          "register an emulator with binfmt_misc (qemu-user-static, with the flag F), or do the " +
          "work in a stage FROM --platform=$BUILDPLATFORM and COPY its result",
        detail: { line: vertex.line },
      },
    );
  }
}

/** Reads "linux/amd64,linux/arm64"; none: this machine's. Throws `argument_invalid`. */
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

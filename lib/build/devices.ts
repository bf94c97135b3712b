/** What `RUN --device` asks for, found in the host's CDI files and permitted or not. */
import { SvcError } from "../base/errors.ts";
import { CDI_FOLDERS, type CdiDevice, matchDevices, readDevices } from "../runtime/cdi.ts";
import type { Entitlement } from "./inputs.ts";
import type { RunVertex, Vertex } from "./plan/graph.ts";

/** The devices of a step; what is missing and not required is left out. Throws `unsupported`. */
export async function devicesOf(
  vertex: RunVertex,
  file: string,
  folders: readonly string[] = CDI_FOLDERS,
): Promise<CdiDevice[]> {
  if (vertex.devices.length === 0) return [];
  const { devices, unread } = await readDevices(folders);
  const found = new Set<CdiDevice>();
  for (const { name, required } of vertex.devices) {
    const matching = matchDevices(devices, name);
    for (const device of matching) found.add(device);
    if (matching.length > 0 || !required) continue;
    throw refusal(vertex, file, "unsupported", `no CDI file of this builder describes ${name}`, {
      help: `CDI files are looked for in ${folders.join(", ")}` +
        (unread.length > 0 ? `; these are not understood: ${unread.join(", ")}` : ""),
    });
  }
  return [...found];
}

/** Refuses before anything has run what no step may have. Throws `denied` or `unsupported`. */
export async function requireDevices(
  vertices: readonly Vertex[],
  { file, allow, folders }: {
    file: string;
    allow: readonly Entitlement[];
    folders?: readonly string[];
  },
): Promise<void> {
  for (const vertex of vertices) {
    if (vertex.kind !== "run") continue;
    const denied = (await devicesOf(vertex, file, folders)).find(({ allowed }) => !allowed);
    if (!denied || allow.includes("device")) continue;
    throw refusal(vertex, file, "denied", `the build is not allowed to use ${denied.name}`, {
      help: "ask for it with --allow device, where the server permits it (SVC_BUILD_ENTITLEMENTS)",
    });
  }
}

function refusal(
  { line, text }: RunVertex,
  file: string,
  code: "denied" | "unsupported",
  why: string,
  { help }: { help: string },
): SvcError {
  const place = line === undefined ? file : `${file}:${line}`;
  return new SvcError(code, `Cannot build ${place}: ${text}: ${why}`, { help, detail: { line } });
}

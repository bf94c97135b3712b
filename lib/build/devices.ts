/** Devices of `RUN --device`: finds them in the host's CDI files and checks the permission. */
import { type Entitlement, parseEntitlement } from "../api/build_entitlements.ts";
import { SvcError } from "../base/errors.ts";
import { CDI_FOLDERS, type CdiDevice, matchDevices, readDevices } from "../runtime/cdi.ts";
import type { RunVertex, Vertex } from "./plan/graph.ts";

/** The devices of a step, without missing ones that are not required. Throws `unsupported`. */
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

/** Names of the devices that the entitlements allow. */
function granted(texts: readonly Entitlement[], devices: readonly CdiDevice[]): Set<string> {
  const names = texts.map(parseEntitlement).filter(({ right }) => right === "device").flatMap(
    ({ device }) => device === undefined ? devices : matchDevices(devices, device),
  );
  return new Set(names.map(({ name }) => name));
}

/** Refuses devices that a step may not have, before any step has run. Throws `denied` or `unsupported`. */
export async function requireDevices(
  vertices: readonly Vertex[],
  { file, asked, permitted, folders = CDI_FOLDERS }: {
    file: string;
    /** Entitlements that the caller asked for, and that the server permits. */
    asked: readonly Entitlement[];
    permitted: readonly Entitlement[];
    folders?: readonly string[];
  },
): Promise<void> {
  const runs = vertices.filter((vertex) => vertex.kind === "run" && vertex.devices.length > 0);
  if (runs.length === 0) return;
  const { devices } = await readDevices(folders);
  const both = granted(asked, devices).intersection(granted(permitted, devices));
  for (const vertex of runs as RunVertex[]) {
    const denied = (await devicesOf(vertex, file, folders))
      .find(({ allowed, name }) => !allowed && !both.has(name));
    if (!denied) continue;
    throw refusal(vertex, file, "denied", `the build is not allowed to use ${denied.name}`, {
      help: `ask for it with --allow device=${denied.name} (or device, for any), ` +
        "where the server permits it (SVC_BUILD_ENTITLEMENTS)",
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

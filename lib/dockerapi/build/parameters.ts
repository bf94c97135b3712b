/** The parameters of `POST /build` (docker's Engine API, ImageBuild). */
import { invalid } from "../errors.ts";
import type { Call } from "../route.ts";
import { type BuildWish, cannotBuild, NO_WISH } from "./wish.ts";

/** Parameters that docker's own client always sends; a value other than these is refused by its name. */
const REFUSED: Record<string, readonly string[]> = {
  memory: ["0"],
  memswap: ["0", "-1"],
  cpushares: ["0"],
  cpuquota: ["0"],
  cpuperiod: ["0"],
  cpusetcpus: [],
  cpusetmems: [],
  cgroupparent: [],
  shmsize: ["0"],
  ulimits: ["null", "[]"],
  squash: ["0", "false"],
  isolation: ["default"],
  securityopt: [],
};

function jsonOf<T>(call: Pick<Call, "query">, name: string, otherwise: T): T {
  const text = call.query.get(name);
  if (!text) return otherwise;
  try {
    return JSON.parse(text) as T ?? otherwise;
  } catch {
    throw invalid(`invalid ${name}: it is not JSON`);
  }
}

/** Arguments without a value come from the client's environment, which sent them if it has them. */
function given(record: Readonly<Record<string, string | null>>): Record<string, string> {
  const pairs = Object.entries(record).filter((pair): pair is [string, string] => pair[1] !== null);
  return Object.fromEntries(pairs);
}

/** A parameter that clients repeat, or send as a list in one. */
function listOf(call: Pick<Call, "query">, name: string): string[] {
  return call.query.getAll(name).flatMap((text) =>
    text.startsWith("[") ? JSON.parse(text) as string[] : text.split(",")
  ).filter((text) => text !== "");
}

/** Throws what cannot be honoured, by name; `argument_invalid` for what is malformed. */
export function wishOf(call: Pick<Call, "query" | "flag">): BuildWish {
  const { query } = call;
  for (const [name, harmless] of Object.entries(REFUSED)) {
    const value = query.get(name);
    if (value && !harmless.includes(value)) throw cannotBuild(`${name}=${value}`);
  }
  const text = (name: string) => query.get(name) || undefined;
  const cacheFrom = jsonOf<string[]>(call, "cachefrom", []);
  const remote = text("remote");
  return {
    ...NO_WISH,
    names: query.getAll("t").filter((name) => name !== ""),
    dockerfile: text("dockerfile") ?? "Dockerfile",
    target: text("target"),
    platform: text("platform"),
    buildArgs: given(jsonOf(call, "buildargs", {})),
    labels: given(jsonOf(call, "labels", {})),
    noCache: call.flag("nocache"),
    pull: call.flag("pull"),
    network: text("networkmode"),
    addHosts: listOf(call, "extrahosts"),
    cacheFrom: cacheFrom.map((name) => name.includes("=") ? name : `type=registry,ref=${name}`),
    ...remote && !["client-session", "upload-request"].includes(remote) && { remote },
  };
}

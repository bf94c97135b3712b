/** The parameters of `POST /build` (docker's Engine API, ImageBuild). */
import { invalid } from "../errors.ts";
import { type BuildWish, cannotBuild, NO_WISH } from "./wish.ts";
import type { Call } from "../request.ts";

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

const isText = (value: unknown) => typeof value === "string";

function jsonOf(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(`invalid ${name}: it is not JSON`);
  }
}

function listIn(name: string, text: string): string[] {
  const value = jsonOf(name, text) ?? [];
  if (Array.isArray(value) && value.every(isText)) return value;
  throw invalid(`invalid ${name}: expected a list of strings`);
}

function mapOf(call: Pick<Call, "query">, name: string): Record<string, string | null> {
  const value = jsonOf(name, call.query.get(name) || "{}") ?? {};
  const fits = typeof value === "object" && !Array.isArray(value) &&
    Object.values(value).every((one) => one === null || isText(one));
  if (fits) return value as Record<string, string | null>;
  throw invalid(`invalid ${name}: expected strings by their names`);
}

/** Arguments without a value come from the client's environment, which sent them if it has them. */
function given(record: Readonly<Record<string, string | null>>): Record<string, string> {
  const pairs = Object.entries(record).filter((pair): pair is [string, string] => pair[1] !== null);
  return Object.fromEntries(pairs);
}

/** A parameter that clients repeat, or send as a list in one. */
function listOf(call: Pick<Call, "query">, name: string): string[] {
  return call.query.getAll(name).flatMap((text) =>
    text.startsWith("[") ? listIn(name, text) : text.split(",")
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
  const cacheFrom = listIn("cachefrom", query.get("cachefrom") || "[]");
  const remote = text("remote");
  return {
    ...NO_WISH,
    names: query.getAll("t").filter((name) => name !== ""),
    dockerfile: text("dockerfile") ?? "Dockerfile",
    target: text("target"),
    platform: text("platform"),
    buildArgs: given(mapOf(call, "buildargs")),
    labels: given(mapOf(call, "labels")),
    noCache: call.flag("nocache"),
    pull: call.flag("pull"),
    network: text("networkmode"),
    addHosts: listOf(call, "extrahosts"),
    cacheFrom: cacheFrom.map((name) => name.includes("=") ? name : `type=registry,ref=${name}`),
    ...remote && !["client-session", "upload-request"].includes(remote) && { remote },
  };
}

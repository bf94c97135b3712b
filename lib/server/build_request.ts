/** What a build's query asks for; the context and what a session brings are added by the route. */
import { parseOutput } from "../api/build_output.ts";
import type { BuildRequest } from "../build/builder.ts";
import { Query } from "./query.ts";

export const BUILD_PARAMETERS = [
  "t",
  "dockerfile",
  "target",
  "platform",
  "buildarg",
  "label",
  "nocache",
  "output",
  "annotation",
] as const;

/** Throws `argument_invalid` for parameters that are unknown or malformed. */
export function buildRequest(url: URL): Omit<BuildRequest, "context"> {
  const query = new Query(url, BUILD_PARAMETERS);
  const outputs = query.all("output").map(parseOutput);
  const annotations = query.all("annotation");
  return {
    tags: query.all("t"),
    dockerfile: query.text("dockerfile") || "Dockerfile",
    target: query.text("target") || undefined,
    platform: query.text("platform") || undefined,
    buildArgs: query.pairs("buildarg"),
    labels: query.pairs("label"),
    noCache: query.bool("nocache") ?? false,
    ...(outputs.length > 0 && { outputs }),
    ...(annotations.length > 0 && { annotations }),
  };
}

/** Reads the config of an image (OCI image specification, "Image Configuration"), which anybody may have written. */
import type { ImageConfig } from "./types.ts";

type Test = (value: unknown) => boolean;

const isText: Test = (value) => typeof value === "string";
const isMap: Test = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const optional = (test: Test): Test => (value) =>
  value === undefined || value === null || test(value);
const listOf = (test: Test): Test => optional((value) => Array.isArray(value) && value.every(test));
const mapOf = (test: Test): Test =>
  optional((value) => isMap(value) && Object.values(value as object).every(test));

const all = (tests: Readonly<Record<string, Test>>): Test => (value) =>
  isMap(value) &&
  Object.entries(tests).every(([field, test]) => test((value as Record<string, unknown>)[field]));

const [text, texts, map] = [optional(isText), listOf(isText), optional(isMap)];

const isConfig = all({
  ...{ os: text, architecture: text, variant: text, created: text, author: text },
  rootfs: all({
    type: (value) => value === "layers",
    diff_ids: (value) => Array.isArray(value) && texts(value),
  }),
  history: listOf(isMap),
  config: optional(all({
    ...{ User: text, WorkingDir: text, StopSignal: text },
    ...{ Env: texts, Entrypoint: texts, Cmd: texts, Shell: texts, OnBuild: texts },
    ...{ Labels: mapOf(isText), Volumes: map, ExposedPorts: map, Healthcheck: map },
  })),
});

/** Undefined where it is none: not JSON, or a field is of another type than the specification says. */
export function readImageConfig(json: string): ImageConfig | undefined {
  try {
    const value = JSON.parse(json);
    return isConfig(value) ? value as ImageConfig : undefined;
  } catch {
    return undefined;
  }
}

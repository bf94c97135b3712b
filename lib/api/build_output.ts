/** Destinations of a build's result: `--output` and the query parameter `output` (buildx syntax). */
import { formatFields, parseFields } from "../base/csv_fields.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";

const OUTPUT_TYPES = [
  "image",
  "registry",
  "docker",
  "oci",
  "tar",
  "local",
  "cacheonly",
] as const;
export type OutputType = typeof OUTPUT_TYPES[number];

export const LAYER_COMPRESSIONS = ["gzip", "zstd", "uncompressed"] as const;
export type LayerCompression = typeof LAYER_COMPRESSIONS[number];

export interface OutputSpec {
  /** `registry` becomes `image` with `push`. */
  type: Exclude<OutputType, "registry">;
  /** Names of the image; empty: the build's names. */
  names: string[];
  /** Of an image: false makes the image without publishing it. */
  push: boolean;
  /** Push by digest only, without a tag. */
  byDigest: boolean;
  /** Of an image: false does not add it to the worker's own store, if there is one. */
  store: boolean;
  /** Path on the client, "-" for standard output. Not sent to the server. */
  dest?: string;
  /** Of oci and docker: the client writes a folder instead of an archive. */
  folder: boolean;
  compression: LayerCompression;
  /** Absent: the compressor's default. */
  compressionLevel?: number;
  /** Also recompress the base image's layers. */
  forceCompression: boolean;
  /** Use docker's media types instead of OCI's. */
  dockerTypes: boolean;
  /** `annotation…` fields: "[manifest|index|…][platform].key" with its value, see annotations.ts. */
  annotations: string[];
}

const WHAT = "--output";
const LEVELS: Record<LayerCompression, [number, number]> = {
  gzip: [0, 9],
  zstd: [0, 22],
  uncompressed: [0, 0],
};

const invalid = (text: string, why: string, help = "") =>
  new SvcError("argument_invalid", `Cannot read ${WHAT} ${JSON.stringify(text)}: ${why}`, {
    ...(help && { help }),
  });

/** The value "true" or "false"; a key without a value is true. */
function flag(text: string, key: string, value: string | undefined): boolean {
  if (value === undefined || /^(1|t|true)$/i.test(value)) return true;
  if (/^(0|f|false)$/i.test(value)) return false;
  throw invalid(text, `${key} is true or false, not ${JSON.stringify(value)}`);
}

const ANNOTATION =
  /^annotation(-(manifest|index|manifest-descriptor|index-descriptor))?(\[[^\]]*\])?\./;

type Setter = (spec: OutputSpec, value: string | undefined, text: string) => void;

/** What each field does; `type` and annotations are read apart. `text` is the whole output, for errors. */
const SETTERS: Record<string, Setter> = {
  "name": (spec, value) => spec.names = (value ?? "").split(",").filter(Boolean),
  "dest": (spec, value) => spec.dest = value,
  "push": (spec, value, text) => spec.push = flag(text, "push", value),
  "push-by-digest": (spec, value, text) => spec.byDigest = flag(text, "push-by-digest", value),
  "store": (spec, value, text) => spec.store = flag(text, "store", value),
  "tar": (spec, value, text) => spec.folder = !flag(text, "tar", value),
  "compression": (spec, value, text) => {
    if (value !== "gzip" && value !== "zstd" && value !== "uncompressed") {
      throw invalid(text, `compression is one of ${LAYER_COMPRESSIONS.join(", ")}`);
    }
    spec.compression = value;
  },
  "compression-level": (spec, value) =>
    spec.compressionLevel = /^\d{1,2}$/.test(value ?? "") ? Number(value) : NaN,
  "force-compression": (spec, value, text) =>
    spec.forceCompression = flag(text, "force-compression", value),
  "oci-mediatypes": (spec, value, text) => spec.dockerTypes = !flag(text, "oci-mediatypes", value),
};

const FIELDS = ["type", ...Object.keys(SETTERS), "annotation."];

/** The output of a build that asks for none. */
export const PLAIN_OUTPUT: OutputSpec = {
  type: "image",
  names: [],
  push: true,
  byDigest: false,
  store: true,
  folder: false,
  compression: "gzip",
  forceCompression: false,
  dockerTypes: false,
  annotations: [],
};

/**
 * Reads `type=T,key=value…`; a path alone is `type=local,dest=PATH`, and "-" is `type=tar,dest=-`. Throws
 * `argument_invalid`.
 */
export function parseOutput(text: string): OutputSpec {
  const spec = structuredClone(PLAIN_OUTPUT);
  if (text === "-") return { ...spec, type: "tar", dest: "-" };
  const fields = parseFields(text, WHAT);
  if (fields.length === 1 && fields[0][1] === undefined) {
    return { ...spec, type: "local", dest: text };
  }
  let type: string | undefined;
  for (const [key, value] of fields) {
    if (key === "type") type = value;
    else if (ANNOTATION.test(key)) spec.annotations.push(`${key}=${value ?? ""}`);
    else if (Object.hasOwn(SETTERS, key)) SETTERS[key](spec, value, text);
    else throw invalid(text, `there is no field ${JSON.stringify(key)}${suggestion(key, FIELDS)}`);
  }
  if (type === undefined) throw invalid(text, "the type is missing", "begin with type=");
  if (type === "registry") type = "image";
  if (!OUTPUT_TYPES.some((known) => known === type)) {
    throw invalid(
      text,
      `there is no type ${JSON.stringify(type)}${suggestion(type, OUTPUT_TYPES)}`,
      `the types are ${OUTPUT_TYPES.join(", ")}`,
    );
  }
  spec.type = type as OutputSpec["type"];
  check(text, spec);
  return spec;
}

function check(text: string, spec: OutputSpec): void {
  const { type, compression, compressionLevel: level, dest, folder } = spec;
  const [least, most] = LEVELS[compression];
  if (level !== undefined && !(level >= least && level <= most)) {
    throw invalid(text, `the level of ${compression} is from ${least} to ${most}`);
  }
  if (dest !== undefined && (type === "image" || type === "cacheonly")) {
    throw invalid(text, `type ${type} has no dest`);
  }
  if (type === "local" && dest === "-") throw invalid(text, "a folder cannot be standard output");
  if (folder && type !== "oci" && type !== "docker") throw invalid(text, `type ${type} has no tar`);
  if (folder && (dest === undefined || dest === "-")) throw invalid(text, "tar=false needs a dest");
  if (spec.dockerTypes && compression === "zstd") {
    throw invalid(text, "docker's media types know no zstd", "leave oci-mediatypes out");
  }
}

/** The form that is sent to the server: everything except the client's path. */
export function formatOutput(spec: OutputSpec): string {
  return formatFields([
    ["type", spec.type],
    ...spec.names.length > 0 ? [["name", spec.names.join(",")] as [string, string]] : [],
    ...!spec.push ? [["push", "false"] as [string, string]] : [],
    ...spec.byDigest ? [["push-by-digest", "true"] as [string, string]] : [],
    ...!spec.store ? [["store", "false"] as [string, string]] : [],
    ...spec.compression !== "gzip" ? [["compression", spec.compression] as [string, string]] : [],
    ...spec.compressionLevel !== undefined
      ? [["compression-level", String(spec.compressionLevel)] as [string, string]]
      : [],
    ...spec.forceCompression ? [["force-compression", "true"] as [string, string]] : [],
    ...spec.dockerTypes ? [["oci-mediatypes", "false"] as [string, string]] : [],
    ...spec.annotations.map((text): [string, string] => {
      const equals = text.indexOf("=");
      return [text.slice(0, equals), text.slice(equals + 1)];
    }),
  ]);
}

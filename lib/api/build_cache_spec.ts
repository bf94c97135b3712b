/** Where a build's cache comes from and goes to: `--cache-from`, `--cache-to` (buildx syntax). */
import { formatFields, parseFields } from "../base/csv_fields.ts";
import { SvcError } from "../base/errors.ts";
import { suggestion } from "../base/nearest.ts";
import { LAYER_COMPRESSIONS, type LayerCompression } from "./build_output.ts";

export interface CacheFromSpec {
  type: "registry" | "local";
  /** Registry reference of a cache, or of an image with an inline cache. */
  ref?: string;
  /** Folder on the client. The server never sees it. */
  src?: string;
  /** Id under which the client sent `src` (`POST /build/caches`). */
  id?: string;
  /** Also import cache mounts, unless this machine has a mount of that name. */
  mounts: boolean;
}

export interface CacheToSpec {
  type: "inline" | "registry" | "local";
  ref?: string;
  /** Folder on the client. */
  dest?: string;
  /** `min`: the steps of the result; `max`: also those of other stages. */
  mode: "min" | "max";
  /** Also export the cache mounts that the build names. */
  mounts: boolean;
  compression: LayerCompression;
  compressionLevel?: number;
  /** True: a cache that cannot be stored is a warning instead of an error. */
  ignoreError: boolean;
}

const invalid = (what: string, text: string, why: string, help?: string) =>
  new SvcError("argument_invalid", `Cannot read ${what} ${JSON.stringify(text)}: ${why}`, {
    ...(help && { help }),
  });

type Fields = Map<string, string | undefined>;

/** Fields by name; unknown ones are refused. `ignored` fields are accepted and have no effect. */
function fieldsOf(what: string, text: string, known: string[], ignored: string[]): Fields {
  const fields: Fields = new Map();
  for (const [key, value] of parseFields(text, what)) {
    if (known.includes(key)) fields.set(key, value);
    else if (!ignored.includes(key)) {
      throw invalid(
        what,
        text,
        `there is no field ${JSON.stringify(key)}${suggestion(key, known)}`,
      );
    }
  }
  return fields;
}

function bool(what: string, text: string, fields: Fields, key: string): boolean {
  if (!fields.has(key)) return false;
  const value = fields.get(key);
  if (value === undefined || /^(1|t|true)$/i.test(value)) return true;
  if (/^(0|f|false)$/i.test(value)) return false;
  throw invalid(what, text, `${key} is true or false, not ${JSON.stringify(value)}`);
}

function typeOf<T extends string>(what: string, text: string, fields: Fields, types: T[]): T {
  const type = types.find((known) => known === fields.get("type"));
  if (type) return type;
  throw invalid(
    what,
    text,
    `there is no type ${JSON.stringify(fields.get("type") ?? "")}`,
    `the types are ${types.join(", ")}`,
  );
}

/** Reads `type=registry,ref=…` or `type=local,src=…`; a name alone is a registry's. */
export function parseCacheFrom(text: string): CacheFromSpec {
  const what = "--cache-from";
  if (!/[=,]/.test(text) && text !== "") return { type: "registry", ref: text, mounts: false };
  const known = ["type", "ref", "src", "id", "mounts"];
  // These fields choose one of a folder's caches; svc's folders hold only one.
  const fields = fieldsOf(what, text, known, ["tag", "digest"]);
  const type = typeOf(what, text, fields, ["registry", "local"]);
  const [ref, src, id] = ["ref", "src", "id"].map((key) => fields.get(key));
  if (type === "registry" && !ref) throw invalid(what, text, "the ref is missing");
  if (type === "local" && !src && !id) throw invalid(what, text, "the src is missing");
  return {
    type,
    ...(ref && { ref }),
    ...(src && { src }),
    ...(id && { id }),
    mounts: bool(what, text, fields, "mounts"),
  };
}

/** Reads `type=inline`, `type=registry,ref=…` or `type=local,dest=…`; a name alone is a registry's. */
export function parseCacheTo(text: string): CacheToSpec {
  const what = "--cache-to";
  const known = [
    "type",
    "ref",
    "dest",
    "mode",
    "mounts",
    "compression",
    "compression-level",
    "ignore-error",
  ];
  const bare = !/[=,]/.test(text) && text !== "" && text !== "inline";
  const line = bare ? `type=registry,ref=${text}` : text === "inline" ? "type=inline" : text;
  // svc always writes an OCI image manifest.
  const ignored = ["image-manifest", "oci-mediatypes", "oci-artifact", "force-compression"];
  const fields = fieldsOf(what, line, known, ignored);
  const type = typeOf(what, text, fields, ["inline", "registry", "local"]);
  const [ref, dest] = [fields.get("ref"), fields.get("dest")];
  if (type === "registry" && !ref) throw invalid(what, text, "the ref is missing");
  const mode = fields.get("mode") ?? "min";
  if (mode !== "min" && mode !== "max") throw invalid(what, text, "mode is min or max");
  const mounts = bool(what, text, fields, "mounts");
  if (type === "inline" && (mounts || mode === "max")) {
    throw invalid(what, text, "an image holds its own steps alone", "use type=registry");
  }
  const compression = LAYER_COMPRESSIONS.find((known) =>
    known === (fields.get("compression") ?? "gzip")
  );
  if (!compression) {
    throw invalid(what, text, `compression is one of ${LAYER_COMPRESSIONS.join(", ")}`);
  }
  const level = fields.get("compression-level");
  const most = compression === "zstd" ? 22 : 9;
  if (level !== undefined && !(/^\d{1,2}$/.test(level) && Number(level) <= most)) {
    throw invalid(what, text, `the level of ${compression} is from 0 to ${most}`);
  }
  return {
    type,
    ...(type === "registry" && { ref }),
    ...(type === "local" && dest && { dest }),
    mode,
    mounts,
    compression,
    ...(level !== undefined && { compressionLevel: Number(level) }),
    ignoreError: bool(what, text, fields, "ignore-error"),
  };
}

const yes = (key: string, value: boolean): [string, string][] => value ? [[key, "true"]] : [];

/** The form that is sent to the server, without paths of the client. */
export function formatCacheFrom({ type, ref, id, mounts }: CacheFromSpec): string {
  return formatFields([
    ["type", type],
    ...ref ? [["ref", ref] as [string, string]] : [],
    ...id ? [["id", id] as [string, string]] : [],
    ...yes("mounts", mounts),
  ]);
}

export function formatCacheTo(spec: CacheToSpec): string {
  const { type, ref, mode, compression, compressionLevel: level } = spec;
  return formatFields([
    ["type", type],
    ...ref ? [["ref", ref] as [string, string]] : [],
    ...mode === "max" ? [["mode", mode] as [string, string]] : [],
    ...yes("mounts", spec.mounts),
    ...compression !== "gzip" ? [["compression", compression] as [string, string]] : [],
    ...level !== undefined ? [["compression-level", String(level)] as [string, string]] : [],
    ...yes("ignore-error", spec.ignoreError),
  ]);
}

/** Sources and destinations of images, as a person writes them. */
import { SvcError } from "../base/errors.ts";
import { isDigest } from "../oci/digest.ts";
import { formatReference, parseReference } from "../oci/reference.ts";
import type { Digest } from "../oci/types.ts";

export interface RegistryPlace {
  kind: "registry";
  /** Absent: the server's own registry. */
  host?: string;
  repository: string;
  tag?: string;
  digest?: Digest;
}

export interface PackedPlace {
  kind: "docker-archive" | "oci" | "oci-archive";
  path: string;
  /** Which image: a tag, or in a docker archive a name. */
  reference?: string;
  digest?: Digest;
}

/** A file whose kind is detected by its content. */
export interface FilePlace {
  kind: "file";
  path: string;
}

export type Place = RegistryPlace | PackedPlace | FilePlace;

const PACKED = ["docker-archive", "oci", "oci-archive"] as const;
/** Transports of other tools: known, so that the error can say that they are not supported. */
const FOREIGN = ["containers-storage", "docker-daemon", "dir", "sif", "ostree", "tarball"];

const invalid = (text: string, why: string, help?: string) =>
  new SvcError("usage", `Cannot read ${JSON.stringify(text)}: ${why}`, {
    help: help ?? "see `svc pull --help`",
  });

function packed(kind: PackedPlace["kind"], text: string, rest: string): PackedPlace {
  const place: PackedPlace = { kind, path: rest };
  const at = /^(.*)@(sha(?:256|512):[0-9a-f]+)$/s.exec(rest);
  if (at) {
    if (!isDigest(at[2])) throw invalid(text, "the part after @ is not a sha256 or sha512 digest");
    [place.path, place.digest] = [at[1], at[2]];
  }
  // A drive letter's colon belongs to the path.
  const from = /^[A-Za-z]:[\\/]/.test(place.path) ? 2 : 0;
  const colon = place.path.indexOf(":", from);
  if (colon >= 0) {
    const reference = place.path.slice(colon + 1);
    if (reference === "") throw invalid(text, "the name after the path is empty");
    place.path = place.path.slice(0, colon);
    place.reference = reference;
  }
  if (place.path === "") throw invalid(text, "the path is missing");
  if (place.path === "-") place.path = "/dev/stdin";
  return place;
}

/** "busybox" of docker.io becomes "library/busybox", as in every other tool. */
function registry(text: string, implied?: string): RegistryPlace {
  const reference = parseReference(text);
  let host = reference.registry ?? implied;
  if (host === "index.docker.io") host = "docker.io";
  const short = host === "docker.io" && !reference.repository.includes("/");
  return {
    kind: "registry",
    ...(host !== undefined && { host }),
    repository: short ? `library/${reference.repository}` : reference.repository,
    ...(reference.tag !== undefined && { tag: reference.tag }),
    ...(reference.digest !== undefined && { digest: reference.digest }),
  };
}

/**
 * Parses a place: `NAME` (in the server's registry), `HOST/NAME`, `docker://NAME` (as with skopeo),
 * `docker-archive:FILE[:NAME]`, `oci:DIR[:TAG]`, `oci-archive:FILE[:TAG]`, or a path (`./x`, `/x`, `x.tar`).
 * Throws `usage` or `reference_invalid`.
 */
export function parsePlace(text: string): Place {
  for (const kind of PACKED) {
    if (text.startsWith(`${kind}:`)) return packed(kind, text, text.slice(kind.length + 1));
  }
  if (text.startsWith("docker://")) return registry(text.slice("docker://".length), "docker.io");
  if (/^\.{0,2}[\\/]|^[A-Za-z]:[\\/]|^-$|\.(?:tar|tgz|tar\.gz|tar\.zst)$/.test(text)) {
    return { kind: "file", path: text === "-" ? "/dev/stdin" : text };
  }
  const foreign = FOREIGN.find((name) => text.startsWith(`${name}:`));
  try {
    return registry(text);
  } catch (error) {
    // "dir:v1" is a valid image name, "dir:/tmp/x" is not.
    if (foreign) throw invalid(text, `${foreign}: is nothing svc moves images from or to`);
    throw error;
  }
}

/** The text of a place; `serverHost` is shown for the server's own registry. */
export function formatPlace(place: Place, serverHost?: string): string {
  if (place.kind === "registry") {
    const { host = serverHost, repository, tag, digest } = place;
    return formatReference({ registry: host, repository, tag, digest });
  }
  if (place.kind === "file") return place.path;
  const { kind, path, reference, digest } = place;
  return `${kind}:${path}${reference === undefined ? "" : `:${reference}`}${
    digest === undefined ? "" : `@${digest}`
  }`;
}

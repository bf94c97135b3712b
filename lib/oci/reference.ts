/**
 * Image names: `[registry/]repository[:tag][@digest]`. Grammar of the OCI Distribution Specification 1.1
 * ("Pulling manifests"); docker's rule for what is a registry.
 */
import { SvcError } from "../base/errors.ts";
import { isDigest } from "./digest.ts";
import type { Digest } from "./types.ts";

export interface Reference {
  /** host[:port]; absent where the name begins with the repository. */
  registry?: string;
  repository: string;
  tag?: string;
  digest?: Digest;
}

/** Longest registry and repository together, as distribution limits them: one file name on most systems. */
const MAX_NAME = 255;

const COMPONENT = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
const REPOSITORY = new RegExp(`^${COMPONENT}(?:/${COMPONENT})*$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?";
const HOST = new RegExp(`^(?:${LABEL}(?:\\.${LABEL})*|\\[[0-9A-Fa-f:.]+\\])(?::([0-9]{1,5}))?$`);

/** A repository name without registry: lower-case path components, at most 255 bytes. */
export function isRepositoryName(text: string): boolean {
  return text.length <= MAX_NAME && REPOSITORY.test(text);
}

/** At most 128 of `[A-Za-z0-9._-]`, not beginning with "." or "-". */
export function isTag(text: string): boolean {
  return TAG.test(text);
}

/** host[:port], a bracketed IPv6 address included. */
export function isRegistry(text: string): boolean {
  const match = HOST.exec(text);
  return match !== null && (match[1] === undefined || Number(match[1]) <= 65535);
}

/** Docker's rule: the part before the first "/" is a registry where it could not be a repository. */
function looksLikeRegistry(part: string): boolean {
  return part.includes(".") || part.includes(":") || part === "localhost" ||
    part.toLowerCase() !== part;
}

function invalid(text: string, why: string): SvcError {
  return new SvcError(
    "reference_invalid",
    `Cannot read image name ${JSON.stringify(text.slice(0, 300))}: ${why}`,
  );
}

/** Throws `reference_invalid` that names the offending part. */
export function parseReference(text: string): Reference {
  const at = text.indexOf("@");
  const digest = at < 0 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !isDigest(digest)) {
    throw invalid(text, "the part after @ is not a sha256 or sha512 digest");
  }
  let rest = at < 0 ? text : text.slice(0, at);
  let registry: string | undefined;
  const slash = rest.indexOf("/");
  if (slash >= 0 && looksLikeRegistry(rest.slice(0, slash))) {
    registry = rest.slice(0, slash);
    rest = rest.slice(slash + 1);
    if (!isRegistry(registry)) {
      throw invalid(text, `${JSON.stringify(registry)} is not host[:port]`);
    }
  }
  let tag: string | undefined;
  const colon = rest.lastIndexOf(":");
  if (colon > rest.lastIndexOf("/")) {
    tag = rest.slice(colon + 1);
    rest = rest.slice(0, colon);
    if (!isTag(tag)) {
      throw invalid(
        text,
        "a tag is 1 to 128 letters, digits, dots, underscores or dashes, and begins with none of .-",
      );
    }
  }
  if (rest === "") throw invalid(text, "the repository is missing");
  if (!REPOSITORY.test(rest)) {
    throw invalid(
      text,
      /[A-Z]/.test(rest)
        ? "a repository is written in lower case"
        : "a repository is made of lower-case letters and digits, separated by . _ __ - or /",
    );
  }
  if (rest.length + (registry === undefined ? 0 : registry.length + 1) > MAX_NAME) {
    throw invalid(text, `registry and repository have more than ${MAX_NAME} characters`);
  }
  const reference: Reference = { repository: rest };
  if (registry !== undefined) reference.registry = registry;
  if (tag !== undefined) reference.tag = tag;
  if (digest !== undefined) reference.digest = digest;
  return reference;
}

/** The inverse of `parseReference`. */
export function formatReference(reference: Reference): string {
  return (reference.registry === undefined ? "" : `${reference.registry}/`) +
    reference.repository +
    (reference.tag === undefined ? "" : `:${reference.tag}`) +
    (reference.digest === undefined ? "" : `@${reference.digest}`);
}

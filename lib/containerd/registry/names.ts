/** Names of containerd's images as a registry sees them. */
import { SvcError } from "../../base/errors.ts";
import { isDigest } from "../../oci/digest.ts";
import { parseReference } from "../../oci/reference.ts";
import type { Digest } from "../../oci/types.ts";

export interface ImagePlace {
  /** Registry and repository: the name without its tag or digest. */
  repository: string;
  tag?: string;
  digest?: Digest;
}

/** Undefined: no registry could have an image of that name. Kubernetes names images by their configs' digests, too. */
export function placeOf(name: string): ImagePlace | undefined {
  if (isDigest(name)) return undefined;
  try {
    const { registry, repository, tag, digest } = parseReference(name);
    return {
      repository: registry === undefined ? repository : `${registry}/${repository}`,
      tag,
      digest,
    };
  } catch (error) {
    if (error instanceof SvcError) return undefined;
    throw error;
  }
}

const literal = (text: string) => text.replace(/[^A-Za-z0-9/_-]/g, "\\$&");

/** containerd's filter for the images of a repository, with or without a tag. */
export function inRepository(repository: string): string {
  return `name~=${JSON.stringify(`^${literal(repository)}[:@]`)}`;
}

/** containerd's filter for the images of a repository, or of its tag, below whatever registry. */
export function inAnyRegistry(repository: string, tag?: string): string {
  const end = tag === undefined ? "[:@]" : `:${literal(tag)}$`;
  return `name~=${JSON.stringify(`^([^/]+/)?(library/)?${literal(repository)}${end}`)}`;
}

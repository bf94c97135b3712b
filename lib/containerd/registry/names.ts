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

/** containerd's filter for the images of a repository, with or without a tag. */
export function inRepository(repository: string): string {
  const literal = repository.replace(/[^A-Za-z0-9/_-]/g, "\\$&");
  return `name~=${JSON.stringify(`^${literal}[:@]`)}`;
}

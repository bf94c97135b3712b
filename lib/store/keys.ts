/**
 * Keys of the object store (DESIGN.md section 7), flat, so that one listing answers each query on a file system
 * or a bucket.
 *
 *     blobs/<alg>/<2 hex>/<hex>
 *     repos/<name>                             marker; the catalog is this listing
 *     manifests/<name>/<alg>:<hex>             record of manifest_record.ts
 *     tags/<name>/<tag>                        digest
 *     referrers/<name>/<alg>:<hex>/<alg>:<hex> descriptor
 *     mirror/<name>/<tag>                      digests that a mirror gave the tag, newest first
 *     <manifests, tags, referrers key>%<id>    another copy of it (gc/guard.ts)
 *     rescued/<alg>:<hex>/<id>                 another copy of a blob (gc/guard.ts)
 *     claims/<id>, condemned/<id>              what pushes and collections tell each other (gc/guard.ts)
 *     beats/<id>                               signs of life of a claim (gc/guard.ts)
 *     gc/clock                                 rewritten to learn the store's time
 *     damaged/<key, "/" as "%2F">              damage that is still in its place
 *     quarantine/<key, "/" as "%2F">           damage that was moved aside
 *     scrub/state                              how far the walk in the background is
 */
import { SvcError } from "../base/errors.ts";
import { parseDigest } from "../oci/digest.ts";
import { isRepositoryName } from "../oci/reference.ts";
import type { Digest } from "../oci/types.ts";

const ESCAPE: Record<string, string> = { "-": "+", ".": "-", "/": "." };
const UNESCAPE: Record<string, string> = { "+": "-", "-": ".", ".": "/" };

/**
 * A repository name as one segment of a key. Each of `-`, `.`, `/` moves one place down in ASCII: no name
 * grows (255 is also the limit of a file name), and keys stand in the byte order of the names, so that a
 * listing pages the catalog.
 */
export function escapeName(repository: string): string {
  return repository.replace(/[-./]/g, (char) => ESCAPE[char]);
}

export function unescapeName(segment: string): string {
  return segment.replace(/[+.-]/g, (char) => UNESCAPE[char]);
}

/** Throws `name_invalid`. */
function segment(repository: string): string {
  if (!isRepositoryName(repository)) {
    throw new SvcError(
      "name_invalid",
      `Cannot use repository name ${JSON.stringify(repository.slice(0, 300))}: ` +
        `expected lower-case letters and digits, separated by . _ __ - or /, at most 255`,
    );
  }
  return escapeName(repository);
}

export const REPOS = "repos/";

/** Throws `digest_invalid`. */
export function blobKey(digest: Digest): string {
  const { algorithm, hex } = parseDigest(digest);
  return `blobs/${algorithm}/${hex.slice(0, 2)}/${hex}`;
}

export const BLOBS = "blobs/";
export const RESCUED = "rescued/";
export const CLAIMS = "claims/";
export const CONDEMNED = "condemned/";
/** Signs of life of a claim. */
export const beatKey = (claim: string): string => `beats/${claim.slice(CLAIMS.length)}`;
/** Rewritten to learn the store's time. */
export const CLOCK = "gc/clock";
export const QUARANTINE = "quarantine/";

export const rescuedPrefix = (digest: Digest): string => `${RESCUED}${digest}/`;

/** The digest that a key of `blobs/` or `rescued/` holds; undefined for any other key. */
export function digestOfKey(key: string): Digest | undefined {
  const [root, first, second, third] = key.split("/");
  if (root === "blobs" && third) return `${first}:${third}`;
  return root === "rescued" && second ? first : undefined;
}

/** No name or digest has it, and it comes before all that they have: copies come right behind their first key. */
const COPY = "%";

/** How the keys of all copies of a record, a tag or a referrer entry begin. */
export const copiesPrefix = (key: string): string => key + COPY;

/** A new one of them. */
export const copyKey = (key: string): string => copiesPrefix(key) + crypto.randomUUID();

/** The key, or a part from its end, that a copy stands for; other than a copy's it is returned as it is. */
export const firstKey = (key: string): string => key.split(COPY, 1)[0];

/** What a holder claims for a key that a remover condemns: a blob is claimed by its first place. */
export function claimedAs(key: string): string {
  const digest = digestOfKey(key);
  return digest === undefined ? key : blobKey(digest);
}

export const quarantineKey = (key: string): string => QUARANTINE + key.replaceAll("/", "%2F");

export const DAMAGED = "damaged/";
export const damagedKey = (key: string): string => DAMAGED + key.replaceAll("/", "%2F");
export const keyOfDamaged = (key: string): string =>
  key.slice(DAMAGED.length).replaceAll("%2F", "/");

/** How far the walk in the background is. */
export const SCRUB = "scrub/state";

export const repoKey = (repository: string): string => `${REPOS}${segment(repository)}`;

export const TAGS = "tags/";

export const tagsPrefix = (repository: string): string => `${TAGS}${segment(repository)}/`;

export const tagKey = (repository: string, tag: string): string => tagsPrefix(repository) + tag;

export const MANIFESTS = "manifests/";

export const manifestsPrefix = (repository: string): string =>
  `${MANIFESTS}${segment(repository)}/`;

export const manifestKey = (repository: string, digest: Digest): string =>
  `${MANIFESTS}${segment(repository)}/${digest}`;

export const REFERRERS = "referrers/";

export const referrersPrefix = (repository: string, subject: Digest): string =>
  `${REFERRERS}${segment(repository)}/${subject}/`;

export const referrerKey = (repository: string, subject: Digest, digest: Digest): string =>
  referrersPrefix(repository, subject) + digest;

export const mirrorKey = (repository: string, tag: string): string =>
  `mirror/${segment(repository)}/${tag}`;

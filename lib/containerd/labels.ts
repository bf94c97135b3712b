/** Labels by which svc finds its own objects in a namespace of containerd that others use too. */

/** Label of an object that containerd must not collect as garbage; containerd's own name. */
export const GC_ROOT = "containerd.io/gc.root";

const OWNER = "svc/owner";

export const ownerLabels = (owner: string): Record<string, string> => ({ [OWNER]: owner });

/** containerd's filter for objects with the owner's label. */
export const ownedBy = (owner: string): string => labelled(OWNER, owner);

/** containerd's filter for objects with a label of that value. */
export const labelled = (label: string, value: string): string =>
  `labels."${label}"==${JSON.stringify(value)}`;

/** Label with which content keeps other content alive; containerd's own name. `what`: kind of the reference. */
export const gcReference = (what: string): string => `containerd.io/gc.ref.content.${what}`;

/** Label of an image that was pushed to the registry of an owner. */
export const REGISTRY_OWNER = "svc/registry";

/** True for an image that a build left, under whatever name its caller chose, and nobody pushed. */
export const isBuilt = (labels: Readonly<Record<string, string>>): boolean =>
  labels[OWNER] !== undefined && labels[REGISTRY_OWNER] === undefined;

/** containerd's filters, one of which holds where {@linkcode isBuilt} does not. */
export const NOT_BUILT: readonly string[] = [
  `labels.${JSON.stringify(OWNER)}~="^$"`,
  `labels.${JSON.stringify(REGISTRY_OWNER)}`,
];

/** Label of an image whose manifest names a subject: the subject's digest. */
export const SUBJECT = "svc/subject";

/** Label with the time (RFC 3339) at which a lease ends by itself. */
export const GC_EXPIRE = "containerd.io/gc.expire";

/**
 * Label of content that an owner keeps for later builds. Its value is the time of the last use (RFC 3339);
 * several owners may keep the same content.
 */
export const keptLabel = (owner: string): string => `svc/kept.${owner}`;

/** containerd's filter for content that the owner keeps. */
export const keptBy = (owner: string): string => `labels."${keptLabel(owner)}"`;

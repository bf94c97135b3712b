/** How svc finds what is its own among what others keep in the same namespace of containerd. */

/** What carries it is not collected as garbage; containerd's own name for it. */
export const GC_ROOT = "containerd.io/gc.root";

const OWNER = "svc/owner";

export const ownerLabels = (owner: string): Record<string, string> => ({ [OWNER]: owner });

/** containerd's filter for what carries the owner's label. */
export const ownedBy = (owner: string): string => `labels."${OWNER}"==${owner}`;

/** What a piece of content refers to stays as long as it does; containerd's own names of the labels. */
export const gcReference = (what: string): string => `containerd.io/gc.ref.content.${what}`;

/** A lease with it ends at that time (RFC 3339) by itself. */
export const GC_EXPIRE = "containerd.io/gc.expire";

/**
 * Content that an owner keeps for later builds carries this, with the time of its last use (RFC 3339):
 * several owners may keep the same.
 */
export const keptLabel = (owner: string): string => `svc/kept.${owner}`;

/** containerd's filter for what has such a label. */
export const keptBy = (owner: string): string => `labels."${keptLabel(owner)}"`;

/** Labels by which svc finds its own objects in a namespace of containerd that others use too. */

/** Label of an object that containerd must not collect as garbage; containerd's own name. */
export const GC_ROOT = "containerd.io/gc.root";

const OWNER = "svc/owner";

export const ownerLabels = (owner: string): Record<string, string> => ({ [OWNER]: owner });

/** containerd's filter for objects with the owner's label. */
export const ownedBy = (owner: string): string => `labels."${OWNER}"==${owner}`;

/** Label with which content keeps other content alive; containerd's own name. `what`: kind of the reference. */
export const gcReference = (what: string): string => `containerd.io/gc.ref.content.${what}`;

/** Label with the time (RFC 3339) at which a lease ends by itself. */
export const GC_EXPIRE = "containerd.io/gc.expire";

/**
 * Label of content that an owner keeps for later builds. Its value is the time of the last use (RFC 3339);
 * several owners may keep the same content.
 */
export const keptLabel = (owner: string): string => `svc/kept.${owner}`;

/** containerd's filter for content that the owner keeps. */
export const keptBy = (owner: string): string => `labels."${keptLabel(owner)}"`;

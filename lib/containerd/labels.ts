/** How svc finds what is its own among what others keep in the same namespace of containerd. */

/** What carries it is not collected as garbage; containerd's own name for it. */
export const GC_ROOT = "containerd.io/gc.root";

const OWNER = "svc/owner";

export const ownerLabels = (owner: string): Record<string, string> => ({ [OWNER]: owner });

/** containerd's filter for what carries the owner's label. */
export const ownedBy = (owner: string): string => `labels."${OWNER}"==${owner}`;

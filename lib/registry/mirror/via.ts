/**
 * The way a request has come, in the Via field (RFC 9110 7.6.3): each mirror that asks another registry
 * adds its own name, and one that finds it there knows that the mirrors form a circle.
 */

/** What mirrors are called there: random, since hosts and ports are not unique. */
const NAME = /^[\d.]+ (svc-[0-9a-f]{16})$/;

/** More mirrors behind each other than anybody has: they are taken as a circle. */
const MAX_HOPS = 10;

export function instanceName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return `svc-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** The mirrors in a Via field, the first one first. Other proxies are left out. */
export function mirrorsIn(field: string | undefined): string[] {
  if (field === undefined) return [];
  return field.split(",").flatMap((entry) => NAME.exec(entry.trim())?.[1] ?? []);
}

/** True where `name` was there before, or the way has no end. */
export function isCircle(mirrors: readonly string[], name: string): boolean {
  return mirrors.includes(name) || mirrors.length >= MAX_HOPS;
}

/** The field's value for a request that goes on from `name`. */
export function viaField(mirrors: readonly string[], name: string): string {
  return [...mirrors, name].map((one) => `1.1 ${one}`).join(", ");
}

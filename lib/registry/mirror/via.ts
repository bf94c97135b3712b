/**
 * The mirrors that a request has passed, in the Via field (RFC 9110 7.6.3). Each mirror adds its own name
 * before it asks another registry. A mirror that finds its own name there knows that the mirrors form a circle.
 */

/** Names of mirrors in a Via field: random, since hosts and ports are not unique. */
const NAME = /^[\d.]+ (svc-[0-9a-f]{16})$/;

/** No real chain of mirrors is longer: a longer one counts as a circle. */
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

/** True where `name` is in the list already, or the list is too long. */
export function isCircle(mirrors: readonly string[], name: string): boolean {
  return mirrors.includes(name) || mirrors.length >= MAX_HOPS;
}

/** The Via field for a request that the mirror `name` passes on. */
export function viaField(mirrors: readonly string[], name: string): string {
  return [...mirrors, name].map((one) => `1.1 ${one}`).join(", ");
}

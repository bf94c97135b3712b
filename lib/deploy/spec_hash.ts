/** Whether an apply changes anything. */
import { createHash } from "node:crypto";
import type { DeploySpec } from "../api/deploy_spec.ts";
import type { Attachments } from "./backend.ts";
import type { Roles } from "./caretakers.ts";

/**
 * A hash that is equal for equal specs, attachments and images, whatever the order of members and however many
 * replicas: an instance is the same beside fewer or more of its kind.
 */
export function specHash(
  spec: DeploySpec,
  imageDigest: string,
  { env = {}, mounts = [] }: Pick<Attachments, "env" | "mounts">,
  /** Of its companion. */
  roles?: Roles,
): string {
  const canonical = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(canonical)
      : value !== null && typeof value === "object"
      ? Object.fromEntries(
        Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1).map(([k, v]) => [k, canonical(v)]),
      )
      : value;
  // The origin of the spec does not affect the instances. One replica: hashes in records of older versions stay
  // valid.
  const { origin: _origin, ...rest } = { ...spec, replicas: 1 };
  const parts: unknown[] = [canonical(rest), imageDigest];
  // Added only where there is something: hashes in records of older versions stay valid.
  if (Object.keys(env).length > 0) parts.push(canonical(env));
  if (mounts.length > 0) parts.push(canonical({ mounts }));
  if (roles) parts.push(canonical({ roles }));
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

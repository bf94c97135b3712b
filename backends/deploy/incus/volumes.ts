/** Custom volumes of Incus's storage pool that svc makes. They outlive deployments. */
import type { VolumeSpec } from "../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { ManagedAbility, VolumeStatus } from "../../../lib/deploy/caps.ts";
import type { Volume } from "../../../lib/incus/types.ts";
import { managed, usersOf } from "../shared/engine_api/abilities/managed.ts";
import type { DeployedParts } from "../shared/engine_api/abilities/parts.ts";
import { foreignLabels, SERVER } from "../shared/engine_api/labels.ts";
import { configOf, type IncusPlace, keyOf, labelsOf } from "./place.ts";

/** Below the API's root. Without a name: of all. */
export const pathOfVolume = (pool: string, name = "") =>
  `/storage-pools/${encodeURIComponent(pool)}/volumes/custom${
    name && `/${encodeURIComponent(name)}`
  }`;

/** All custom volumes of the pool, whosever they are. */
export const volumesIn = ({ client, pool }: IncusPlace, attempted: string, signal?: AbortSignal) =>
  client.get<Volume[]>({
    path: pathOfVolume(pool),
    query: { recursion: 1 },
    attempted,
    signal,
  });

/** Makes the volume where it is missing. Throws `conflict` for one that this server did not make. */
export async function ensureVolume(
  place: IncusPlace,
  { name, size, labels }: VolumeSpec,
): Promise<void> {
  const attempted = `Cannot use volume ${name}`;
  const { server } = place;
  const found = (await volumesIn(place, attempted)).find((one) => one.name === name);
  if (found?.config[keyOf(SERVER)] === server) return;
  if (found) {
    throw new SvcError("conflict", `${attempted}: it is there, and not of this server`, {
      help: "name another volume; its content belongs to somebody else",
    });
  }
  await makeVolume(place, {
    name,
    config: {
      ...configOf({ ...foreignLabels(labels), [SERVER]: server }),
      ...(size && { size: `${size}B` }),
    },
    attempted,
  });
}

export async function makeVolume(
  { client, pool }: IncusPlace,
  { name, config, attempted }: {
    name: string;
    config: Record<string, string>;
    attempted: string;
  },
): Promise<void> {
  await client.change({
    path: pathOfVolume(pool),
    json: { name, type: "custom", content_type: "filesystem", config },
    attempted,
  });
}

/** Throws `not_found`, and `conflict` where an instance has it. */
export async function removeVolume(
  { client, pool }: IncusPlace,
  name: string,
  attempted: string,
  signal?: AbortSignal,
): Promise<void> {
  await client.change({ method: "DELETE", path: pathOfVolume(pool, name), attempted, signal });
}

export function volumesAbility(
  place: IncusPlace,
  parts: DeployedParts,
): ManagedAbility<VolumeStatus> {
  const { server } = place;
  return managed("volume", async ({ signal } = {}) => {
    const all = await volumesIn(place, "Cannot list the volumes", signal);
    return all.filter(({ config }) => config[keyOf(SERVER)] === server)
      .map(({ name, config, created_at }) => ({
        name,
        driver: "incus",
        ...(created_at && !created_at.startsWith("0001-") && { createdAt: created_at }),
        labels: foreignLabels(labelsOf(config)),
        usedBy: usersOf(parts, ({ volumes }) => volumes.some((one) => one.name === name)),
      }));
  }, (name, { attempted, signal }) => removeVolume(place, name, attempted, signal));
}

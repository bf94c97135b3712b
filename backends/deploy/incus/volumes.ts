/** Custom volumes of Incus's storage pool that svc makes. They outlive deployments. */
import type { VolumeSpec } from "../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../lib/base/errors.ts";
import type { ManagedAbility, VolumeStatus } from "../../../lib/deploy/caps.ts";
import type { Volume } from "../../../lib/incus/types.ts";
import { managed, usersOf } from "../shared/engine_api/abilities/managed.ts";
import type { DeployedParts } from "../shared/engine_api/abilities/parts.ts";
import { foreignLabels, SERVER } from "../shared/engine_api/labels.ts";
import { configOf, type IncusPlace, keyOf, labelsOf } from "./place.ts";

const pathOf = (pool: string, name = "") =>
  `/storage-pools/${encodeURIComponent(pool)}/volumes/custom${
    name && `/${encodeURIComponent(name)}`
  }`;

const list = ({ client, pool }: IncusPlace, attempted: string, signal?: AbortSignal) =>
  client.get<Volume[]>({
    path: pathOf(pool),
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
  const { client, pool, server } = place;
  const found = (await list(place, attempted)).find((one) => one.name === name);
  if (found?.config[keyOf(SERVER)] === server) return;
  if (found) {
    throw new SvcError("conflict", `${attempted}: it is there, and not of this server`, {
      help: "name another volume; its content belongs to somebody else",
    });
  }
  await client.change({
    path: pathOf(pool),
    json: {
      name,
      type: "custom",
      content_type: "filesystem",
      config: {
        ...configOf({ ...foreignLabels(labels), [SERVER]: server }),
        ...(size && { size: `${size}B` }),
      },
    },
    attempted,
  });
}

export function volumesAbility(
  place: IncusPlace,
  parts: DeployedParts,
): ManagedAbility<VolumeStatus> {
  const { client, pool, server } = place;
  return managed("volume", async ({ signal } = {}) => {
    const all = await list(place, "Cannot list the volumes", signal);
    return all.filter(({ config }) => config[keyOf(SERVER)] === server)
      .map(({ name, config, created_at }) => ({
        name,
        driver: "incus",
        ...(created_at && !created_at.startsWith("0001-") && { createdAt: created_at }),
        labels: foreignLabels(labelsOf(config)),
        usedBy: usersOf(parts, ({ volumes }) => volumes.some((one) => one.name === name)),
      }));
  }, async (name, { attempted, signal }) => {
    await client.change({ method: "DELETE", path: pathOf(pool, name), attempted, signal });
  });
}

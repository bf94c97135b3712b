/** Named volumes of the engine that svc makes. They outlive deployments. */
import type { VolumeSpec } from "../../../../lib/api/deploy_spec.ts";
import { SvcError } from "../../../../lib/base/errors.ts";
import { isBuilderVolume } from "../../../../lib/docker/builder_names.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { driverOf, withDriver } from "./drivers.ts";
import { foreignLabels, SERVER } from "./labels.ts";

interface InspectedVolume {
  Name: string;
  Labels?: Record<string, string> | null;
}

/** Makes the volume where it is missing. Throws `conflict` for one that this server did not make. */
export async function ensureVolume(
  client: DockerClient,
  server: string,
  { name, driver, driverOpts, labels }: VolumeSpec,
): Promise<void> {
  const attempted = `Cannot use volume ${name}`;
  if (isBuilderVolume(name)) {
    throw new SvcError("conflict", `${attempted}: the name is kept for the builder`, {
      help: "name another volume",
    });
  }
  // Creating one that is there already gives that one.
  const Driver = driverOf(driver, "local");
  const { Labels } = await withDriver(
    client,
    { kind: "Volume", driver: Driver, attempted },
    () =>
      client.json<InspectedVolume>({
        path: "/volumes/create",
        json: {
          Name: name,
          Driver,
          DriverOpts: driverOpts ?? {},
          Labels: { ...foreignLabels(labels), [SERVER]: server },
        },
        attempted,
      }),
  );
  if (Labels?.[SERVER] === server) return;
  throw new SvcError("conflict", `${attempted}: it is there, and not of this server`, {
    help: "name another volume; its content belongs to somebody else",
  });
}

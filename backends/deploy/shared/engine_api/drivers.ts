/** Drivers of volumes and networks: the engine's own, and those of its plugins. */
import { SvcError } from "../../../../lib/base/errors.ts";
import type { DockerClient } from "../../../../lib/docker/client.ts";
import { daemonStatus } from "../../../../lib/docker/errors.ts";

export type DriverKind = "Volume" | "Network";

interface Plugins {
  Plugins?: Partial<Record<DriverKind, string[] | null>>;
}

/** The name for the engine; `usual`: where the spec names none. */
export const driverOf = (driver: string | undefined, usual: string): string =>
  driver && driver !== "default" ? driver : usual;

/**
 * Does the engine's call that names the driver. Throws `spec_invalid` where it refused for want of the driver: docker
 * and podman have other statuses and words for that, with each kind.
 */
export async function withDriver<T>(
  client: DockerClient,
  { kind, driver, attempted }: { kind: DriverKind; driver: string; attempted: string },
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (daemonStatus(error) === undefined) throw error;
    const { Plugins } = await client.json<Plugins>({ path: "/info", attempted });
    const there = Plugins?.[kind] ?? [];
    if (there.length === 0 || there.includes(driver)) throw error;
    const what = kind.toLowerCase();
    const why = `${client.words.product} has no ${what} driver ${driver}`;
    throw new SvcError("spec_invalid", `${attempted}: ${why}`, {
      cause: error,
      help: `name one that it has (${there.join(", ")}), or install its plugin there`,
    });
  }
}

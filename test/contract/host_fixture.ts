/** What fixtures of backends over the host engine share: a data directory, networks, an image. */
import { join } from "node:path";
import { run } from "../../lib/base/process.ts";
import { BridgeRules } from "../../lib/runtime/bridge_rules.ts";
import { bridgeNetwork } from "../../lib/runtime/network.ts";
import { freeSubnetBase } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { removeServerData } from "../peers/cleanup.ts";
import type { DeployFixture } from "./deploy_suite.ts";
import type { HostUnderTest } from "./host_backend.ts";

export type Host = Pick<
  HostUnderTest,
  "engine" | "dataDir" | "allowed" | "subnetBase" | "userBridges"
>;

export const hostConfig = ({ dataDir, subnetBase }: Pick<Host, "dataDir" | "subnetBase">) => ({
  cniBinDir: "/opt/cni/bin",
  cniSubnetBase: subnetBase,
  dns: true,
  allowBindSources: [join(dataDir, "allowed")],
  pidsLimit: 99,
  // Tests wait for both to pass; a machine with much else to do takes seconds for a start.
  startMs: 15_000,
  takeOverMs: 15_000,
});

export async function hostPlace(name: string) {
  const dataDir = await Deno.makeTempDir({ prefix: `svc-${name}-` });
  const subnetBase = freeSubnetBase();
  const [allowed, layout] = [join(dataDir, "allowed"), join(dataDir, "layout")];
  await Deno.mkdir(allowed);
  await writeBaseLayout(layout, "base", {
    layers: [{ "var/state/seed": "from the image" }],
    volumes: ["/var/state"],
  });
  return {
    ...{ engine: name, image: "base", dataDir, allowed, subnetBase },
    userBridges: [1, 2].map((index) => bridgeNetwork(subnetBase, index).bridge),
    async [Symbol.asyncDispose]() {
      await removeServerData(dataDir);
      for (const index of [0, 1, 2, 77]) {
        const network = bridgeNetwork(subnetBase, index);
        await run("ip", ["link", "delete", network.bridge]);
        await new BridgeRules().remove(network);
      }
    },
  } satisfies Omit<DeployFixture, "open"> & Host & Record<string, unknown>;
}

/** What there is of a host's deployments, which have two networks. */
export function hostFound({ engine, dataDir, subnetBase }: Host) {
  const names = async (folder: string) =>
    (await Array.fromAsync(Deno.readDir(folder)).catch(() => [])).map(({ name }) => name);
  const own = (...parts: string[]) => names(join(dataDir, engine, ...parts));
  const bridges = [0, 1, 2, 3].map((index) => bridgeNetwork(subnetBase, index));
  const inEach = async (folder: (network: typeof bridges[number]) => string) =>
    (await Promise.all(bridges.map((network) => names(folder(network))))).flat();
  return {
    async found() {
      const leases = await inEach(({ name }) => join(dataDir, "run/leases", name));
      return {
        instances: (await own("instances")).length,
        records: (await own("deployments")).length,
        // An instance may have several.
        logs: new Set((await own("logs")).map((name) => name.split(".")[0])).size,
        namespaces: [...await own("netns"), ...await own("spares")].length,
        leases: leases.filter((name) => /^\d/.test(name)).length,
        ports: (await inEach(({ bridge }) => `/sys/class/net/${bridge}/brif`)).length,
      };
    },
    expected: (instances: number) => ({
      ...{ instances, logs: instances, namespaces: instances },
      records: instances > 0 ? 1 : 0,
      ...{ leases: 2 * instances, ports: 2 * instances },
    }),
  };
}

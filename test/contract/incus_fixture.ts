/** The incus backend against a daemon of the test's own, for the contract. */
import { join } from "node:path";
import { createIncusBackend } from "../../backends/deploy/incus/open.ts";
import { silent } from "../../lib/base/log.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import type { ImageResolver } from "../../lib/oci/resolver.ts";
import { runTool } from "../e2e/harness.ts";
import { writeBaseLayout } from "../peers/base_image.ts";
import { startDockerRegistry } from "../peers/docker_registry.ts";
import { type IncusPeer, startIncus } from "../peers/incus.ts";
import { layoutImages } from "../peers/layout_images.ts";
import type { DeployFixture } from "./deploy_suite.ts";

export interface IncusFixture extends DeployFixture {
  peer: IncusPeer;
  /** host:port of the registry, which speaks plain HTTP. */
  registry: string;
  /** A folder that may be mounted. */
  allowed: string;
  place: IncusPlace;
  /** Has the daemon's host know the registry as one of plain HTTP. */
  trust(): Promise<void>;
  /** Opens a server with other data on the same daemon. */
  other(): Promise<DeployBackend>;
}

/** Where a backend is opened, as another process can be told. */
export interface IncusPlace {
  dataDir: string;
  layout: string;
  allowed: string;
  registry: string;
  socket: string;
}

/** Names of the layout's images are of the registry. */
function registryImages(layout: string, registry: string): ImageResolver {
  const images = layoutImages(layout);
  return {
    ...images,
    async resolve(name, options) {
      return { ...await images.resolve(name, options), name: `${registry}/${name}:latest` };
    },
  };
}

export const openIncus = (
  { dataDir, layout, allowed, registry, socket }: IncusPlace,
  permitted: readonly string[] = [],
): Promise<DeployBackend> =>
  createIncusBackend({
    ...{ dataDir, socket },
    project: "default",
    pool: "default",
    insecure: [],
    images: registryImages(layout, registry),
    config: { allowBindSources: [allowed], allowPrivileged: permitted, pidsLimit: 500 },
    log: silent,
  });

export interface IncusFixtureOptions {
  /** Programs that the daemon does not find. */
  without?: readonly string[];
  /** The daemon's host does not know the registry as one of plain HTTP. */
  unknownRegistry?: boolean;
}

/** The test is in the daemon's network until the fixture is disposed of. */
export async function incusFixture(
  { without, unknownRegistry }: IncusFixtureOptions = {},
): Promise<IncusFixture> {
  const folder = await Deno.makeTempDir({ prefix: "svc-incus-" });
  const [layout, allowed] = ["layout", "allowed"].map((name) => join(folder, name));
  await Deno.mkdir(allowed);
  await Deno.chmod(folder, 0o755);
  await writeBaseLayout(layout, "base", { layers: [{ "var/state/seed": "from the image" }] });
  const peer = await startIncus({ without });
  const network = peer.enter();
  const registry = await startDockerRegistry();
  const trust = () => peer.trust(registry.host);
  if (!unknownRegistry) await trust();
  await runTool("skopeo", [
    ...["copy", "-q", "--insecure-policy", "--dest-tls-verify=false"],
    ...[`oci:${layout}:base`, `docker://${registry.host}/base:latest`],
  ]);
  const place = {
    dataDir: join(folder, "data"),
    ...{ layout, allowed, registry: registry.host, socket: peer.socket },
  };
  return {
    ...{ peer, allowed, place, trust, registry: registry.host },
    image: "base",
    open: (permitted) => openIncus(place, permitted),
    other: () => openIncus({ ...place, dataDir: join(folder, "other") }),
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      network[Symbol.dispose]();
      await peer[Symbol.asyncDispose]();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** The containerd backend on a daemon of its own, for the contract. */
import { join } from "node:path";
import {
  type ContainerdConfig,
  createContainerdBackend,
} from "../../backends/deploy/containerd/open.ts";
import { silent } from "../../lib/base/log.ts";
import { ContainerdClient } from "../../lib/containerd/client.ts";
import type { DeployBackend } from "../../lib/deploy/backend.ts";
import { unpackImage } from "../../lib/snapshot/unpack.ts";
import {
  type ContainerdOptions,
  type ContainerdPeer,
  startContainerd,
} from "../peers/containerd.ts";
import { layoutImages } from "../peers/layout_images.ts";
import type { DeployFixture } from "./deploy_suite.ts";
import { type Host, hostConfig, hostPlace } from "./host_fixture.ts";

export interface ContainerdFixture extends DeployFixture, Host {
  daemon: ContainerdPeer;
  /** Folder of the daemon. */
  folder: string;
  /** As svc's own client sees it. */
  client: ContainerdClient;
  place: ContainerdPlace;
  /** Another server on the same daemon and namespace. */
  other(): Promise<{ backend: DeployBackend } & AsyncDisposable>;
}

/** Bytes at which logs are rotated. */
export const LOG_LIMIT = 4 * 1024 ** 2;
const NAMESPACE = "svc";

export interface ContainerdFixtureOptions extends ContainerdOptions {
  snapshotter?: "overlayfs" | "native";
}

/** Where a backend is opened, as another process can be told. */
export interface ContainerdPlace extends Pick<Host, "dataDir" | "subnetBase"> {
  address: string;
  snapshotter: "overlayfs" | "native";
}

/** `settings`: unlike the contract's. */
export function openContainerd(
  { dataDir, subnetBase, address, snapshotter }: ContainerdPlace,
  settings: Partial<ContainerdConfig> = {},
): Promise<DeployBackend> {
  return createContainerdBackend({
    dataDir,
    runDir: join(dataDir, "run"),
    config: {
      ...hostConfig({ dataDir, subnetBase }),
      ...{ address, snapshotter, namespace: NAMESPACE, logLimit: LOG_LIMIT, runtime: "runc" },
      allowPrivileged: [],
      ...settings,
    },
    images: layoutImages(join(dataDir, "layout")),
    unpack: (target, image, { signal }) => unpackImage(target, image, { signal }),
    log: silent,
  });
}

export async function containerdFixture(
  { snapshotter = "overlayfs", ...options }: ContainerdFixtureOptions = {},
): Promise<ContainerdFixture> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "svc-containerd-" });
  cleanup.defer(() => Deno.remove(folder, { recursive: true }));
  const daemon = cleanup.use(await startContainerd(folder, options));
  const place = cleanup.use(await hostPlace("containerd"));
  const at = (dataDir: string, subnetBase: string) => {
    const { address } = daemon;
    return { dataDir, subnetBase, address, snapshotter };
  };
  const own = at(place.dataDir, place.subnetBase);
  const client = cleanup.use(
    new ContainerdClient({ address: daemon.address, namespace: NAMESPACE }),
  );
  const opened = cleanup.move();
  return {
    ...place,
    daemon,
    folder,
    client,
    place: own,
    open: (allowPrivileged) => openContainerd(own, { allowPrivileged }),
    async other() {
      const there = await hostPlace("containerd");
      const backend = await openContainerd(at(there.dataDir, there.subnetBase));
      return {
        backend,
        async [Symbol.asyncDispose]() {
          await backend[Symbol.asyncDispose]();
          await there[Symbol.asyncDispose]();
        },
      };
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
